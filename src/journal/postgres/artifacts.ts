import type {
  ArtifactName,
  ArtifactRemoval,
  ArtifactRow,
  ArtifactStore,
  NewArtifact,
} from "../port/artifacts.ts"
import type { Database } from "./database.ts"

/** Artifacts on PostgreSQL. */
export class SqlArtifacts implements ArtifactStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async put({ owner, hash, key, bytes, name, type, at }: NewArtifact) {
    const values = [owner, hash, key, bytes, name, type, at]
    return (await this.#database.query<ArtifactRow>("putArtifact", values))[0]!
  }

  async claim({ owner, hashes, at, staleBefore = at }: Parameters<ArtifactStore["claim"]>[0]) {
    const values = [owner, hashes, at, staleBefore]
    const rows = await this.#database.query<{ hash: string }>("claimArtifacts", values)
    return rows.map(({ hash }) => hash)
  }

  async read({ owner, hash }: ArtifactName) {
    return (await this.#database.query<ArtifactRow>("readArtifact", [owner, hash]))[0] ?? null
  }

  async list({ owner, jobId, after = "", limit }: Parameters<ArtifactStore["list"]>[0]) {
    const page = [owner, after, limit]
    if (jobId === undefined) return this.#database.query<ArtifactRow>("listArtifacts", page)
    return this.#database.query<ArtifactRow>("listJobArtifacts", [...page, jobId])
  }

  async usedBytes(owner: string) {
    return (await this.#database.query<{ bytes: number }>("artifactBytes", [owner]))[0]!.bytes
  }

  async remove({ owner, hash, at, claimedBefore, force }: Parameters<ArtifactStore["remove"]>[0]) {
    const values = [owner, hash, at, claimedBefore, force]
    return (await this.#database.query<ArtifactRemoval>("removeArtifact", values))[0]!
  }

  async mark(marking: Parameters<ArtifactStore["mark"]>[0]) {
    const { before, claimedBefore, at, after, limit, dryRun = false } = marking
    const { owner = "", hash = "" } = after ?? {}
    const values = [before, at, owner, hash, limit, dryRun, claimedBefore]
    const { marked, read, lastOwner, lastHash } = (
      await this.#database.query<MarkedPage>("markArtifacts", values)
    )[0]!
    return { marked, next: read < limit ? null : { owner: lastOwner!, hash: lastHash! } }
  }

  async marked({ before, limit }: Parameters<ArtifactStore["marked"]>[0]) {
    return this.#database.query<ArtifactRow>("markedArtifacts", [before, limit])
  }

  async forget({ owner, hash, key }: Parameters<ArtifactStore["forget"]>[0]) {
    await this.#database.query("forgetArtifact", [owner, hash, key])
  }

  async knownKeys(keys: readonly string[]) {
    const rows = await this.#database.query<{ key: string }>("artifactKeys", [keys])
    return rows.map(({ key }) => key)
  }
}

interface MarkedPage {
  readonly marked: readonly ArtifactRow[]
  readonly read: number
  readonly lastOwner: string | null
  readonly lastHash: string | null
}
