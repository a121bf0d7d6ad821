/** The artifacts of a process that has the journal: what callers and commands do with them. */
import type { ArtifactPage, ArtifactReference, ArtifactView, SweepReport } from "../core/artifacts.ts"
import { localOwner } from "../core/facts.ts"
import { UmbraError } from "../errors.ts"
import { failpoint } from "../failpoints.ts"
import type { ArtifactRow, ArtifactStore } from "../journal/port/artifacts.ts"
import type { ArtifactBody } from "./body.ts"
import type { ContentStore } from "./content-store.ts"
import { noContentStore } from "./open.ts"
import type { ArtifactSettings } from "./settings.ts"
import { ArtifactSweep, GRACE_MS, type SweepOptions } from "./sweep.ts"
import {
  type ArtifactAccess,
  type ArtifactContent,
  type GetOptions,
  noArtifact,
  openArtifact,
  type PutOptions,
  parseArtifactHash,
  removedArtifact,
  storeArtifact,
} from "./transfer.ts"

/** For a URL that a client is about to use. */
const URL_SECONDS = 300

export interface ArtifactsParts {
  readonly rows: ArtifactStore
  /** null: none is configured. */
  readonly content: ContentStore | null
  /** Where it is; null: none is configured. */
  readonly location: string | null
  readonly settings: ArtifactSettings
  readonly now: () => number
}

interface Owned {
  readonly owner?: string | undefined
}

export class Artifacts {
  readonly settings: ArtifactSettings
  readonly #parts: ArtifactsParts

  constructor(parts: ArtifactsParts) {
    this.#parts = parts
    this.settings = parts.settings
  }

  get location(): string | null {
    return this.#parts.location
  }

  async close(): Promise<void> {
    await this.#parts.content?.close()
  }

  /** Stores content; the reference that it returns can be part of an input, an output or a signal. */
  async put(
    name: string,
    body: ArtifactBody,
    { owner, ...options }: PutOptions & Owned = {},
  ): Promise<ArtifactReference> {
    return storeArtifact(this.#access(owner), name, body, options)
  }

  /** Opens content for reading. `reference`: what `put` returned, or its hash. */
  async get(
    reference: { readonly artifact: string } | string,
    { owner, ...options }: GetOptions & Owned = {},
  ): Promise<ArtifactContent> {
    return openArtifact(this.#access(owner), reference, options)
  }

  /** Throws E802 if the owner has no such artifact, E803 if its content was removed. */
  async describe(reference: { readonly artifact: string } | string, { owner = localOwner }: Owned = {}) {
    return artifactView(await this.#row(reference, owner))
  }

  async #row(reference: unknown, owner: string): Promise<ArtifactRow> {
    const hash = parseArtifactHash(reference)
    const row = await this.#parts.rows.read({ owner, hash })
    if (row === null) throw noArtifact(hash)
    if (row.removedAt !== null) throw removedArtifact(hash)
    return row
  }

  /**
   * A URL that allows anybody to read the content for `seconds`, as a file called `name`; null: the content store cannot create one.
   * Throws as `describe` does.
   */
  async presign(
    reference: { readonly artifact: string } | string,
    { owner = localOwner, seconds = URL_SECONDS, name }: Owned & PresignArtifact = {},
  ): Promise<string | null> {
    const row = await this.#row(reference, owner)
    const content = this.#content()
    const options = { seconds, name: name ?? row.name, type: row.type }
    return row.key === null ? null : ((await content.presign?.(row.key, options)) ?? null)
  }

  /** In the order of their hashes; `next`: `after` of the next page. `jobId`: those that this job refers to. */
  async list({ owner = localOwner, jobId, after, limit = 100 }: ListArtifacts = {}): Promise<ArtifactPage> {
    const rows = await this.#parts.rows.list({ owner, jobId, after, limit: limit + 1 })
    const artifacts = rows.slice(0, limit).map(artifactView)
    return { artifacts, next: rows.length > limit ? artifacts.at(-1)!.artifact : null }
  }

  /** Throws E806 if jobs or schedules refer to it; with `force` it is removed all the same, and reading it fails with E803. */
  async remove(
    reference: { readonly artifact: string } | string,
    { owner = localOwner, force = false }: Owned & { readonly force?: boolean | undefined } = {},
  ): Promise<void> {
    const { rows, now } = this.#parts
    const content = this.#content()
    const hash = parseArtifactHash(reference)
    const at = now()
    const { outcome, key } = await rows.remove({ owner, hash, at, claimedBefore: at - GRACE_MS, force })
    if (outcome === "missing") throw noArtifact(hash)
    if (outcome === "referenced")
      throw new UmbraError(
        "E806",
        `the artifact ${hash} is referenced by jobs or schedules, or by a job that is being submitted. Delete those first, or force the removal: reading the artifact then fails (E803)`,
      )
    failpoint("artifact.removed")
    if (key !== null) await content.remove(key)
  }

  /** Marks unreferenced artifacts, and removes those that were marked before, of all owners; engines also do this automatically. */
  sweep(options: SweepOptions = {}): Promise<SweepReport> {
    const content = this.#content()
    return new ArtifactSweep({ ...this.#parts, content }).run(options)
  }

  /** For the engine, which sweeps in pages. null: there is no content here to sweep. */
  sweeper(): ArtifactSweep | null {
    const { content } = this.#parts
    return content === null ? null : new ArtifactSweep({ ...this.#parts, content })
  }

  #access(owner = localOwner): ArtifactAccess {
    const { rows, settings, now } = this.#parts
    return {
      owner,
      content: this.#content(),
      settings,
      rows: {
        put: artifact => rows.put({ owner, ...artifact, at: now() }),
        find: hash => rows.read({ owner, hash }),
        usedBytes: () => rows.usedBytes(owner),
      },
    }
  }

  #content(): ContentStore {
    const { content } = this.#parts
    if (content === null) throw noContentStore()
    return content
  }
}

interface PresignArtifact {
  readonly seconds?: number | undefined
  readonly name?: string | undefined
}

export interface ListArtifacts extends Owned {
  readonly jobId?: string | undefined
  readonly after?: string | undefined
  readonly limit?: number | undefined
}

function artifactView({
  hash,
  name,
  type,
  bytes,
  createdAt,
  lastPutAt,
  removedAt,
}: ArtifactRow): ArtifactView {
  return {
    ...{ artifact: hash, name, type, bytes, created_at: isoTime(createdAt), last_put_at: isoTime(lastPutAt) },
    removed_at: removedAt === null ? null : isoTime(removedAt),
  }
}

function isoTime(at: number): string {
  return new Date(at).toISOString()
}
