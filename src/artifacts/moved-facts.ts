/**
 * Large outputs in the content store (`artifact_output_bytes`). Facts that contain them are moved there as a whole, and a stub
 * replaces them in the database. Readers of the journal that `withMovedFacts` returns get facts as they were recorded.
 *
 * 1. Content first, then its row, then the append of the stub, with a row of `held`: all that is true of artifacts, the sweep
 *    included, is true of moved facts.
 * 2. A stub is recognised by the first key of its text. Only the engine writes the keys of a fact, so no output can imitate one.
 * 3. Their owner is a name that no owner can have: lists, downloads, removals and quotas of artifacts do not include them.
 * 4. If the content store fails, the fact stays in the database. Nothing waits for the content store longer than `WRITE_MS`.
 * 5. The output that a worker reports is stored before it is decided on (`storeOutput`): its append, and those behind it, do not wait
 *    for the content store. Its content is the output alone, and the stub has the rest of the fact. All other large facts are
 *    stored by their append, as a whole.
 */
import { heldArtifact } from "../core/artifacts.ts"
import { UmbraError } from "../errors.ts"
import { failpoint } from "../failpoints.ts"
import { JournalUnavailableError } from "../journal/errors.ts"
import type { JournalFeed } from "../journal/port/feed.ts"
import type { Batch, FactRow, Journal, NewFact } from "../journal/port/journal.ts"
import { bodyChunks } from "./body.ts"
import type { ContentStore } from "./content-store.ts"
import { configuredContentPlace, noContentStore, openContentStore } from "./open.ts"

/** Owners have no control characters in their names. */
export const MOVED_OWNER = "\u0001outputs"
const MARK = '{"$moved":'
/** The end of a fact, after its output. */
const AFTER = "}"
const TYPE = "application/json"
const WRITE_MS = 10_000
/** After a failure the next fact is moved this much later. */
const PAUSE_MS = 30_000
/** An output that was stored longer ago is stored again by its append: a sweep may have marked it. */
const READY_MS = 30_000
const READY_BYTES = 64 * 1024 * 1024
/** Texts that were read last: templates of many items read the same output. */
const KEPT_BYTES = 32 * 1024 * 1024

/** Replaces the text of a fact in the database. */
interface Stub {
  readonly key: string
  readonly hash: string
  /** Of the fact. */
  readonly bytes: number
  /** The text of the fact before its output, which is the content; absent: the content is the whole text of the fact. */
  readonly before?: string
}

/** An output whose content is stored before its append. */
interface Ready {
  readonly jobId: string
  readonly text: string
  readonly stub: Stub
  readonly at: number
}

interface MovedFactsOptions {
  /** null: none is configured. */
  readonly content: ContentStore | null
  /** Facts with larger outputs are moved; null: none is. Those that were moved before are read in any case. */
  readonly outputBytes: number | null
  readonly now: () => number
  readonly onFailure?: (error: unknown) => void
}

export function withMovedFacts(journal: Journal, options: MovedFactsOptions): Journal {
  const moved = new MovedFacts(journal, options)
  const own: Partial<Journal> = {
    feed: overriding<JournalFeed>(journal.feed, {
      read: async query => {
        const page = await journal.feed.read(query)
        return { ...page, facts: await moved.restored(page.facts, query.inlineBytes) }
      },
    }),
    readFacts: async (ids, given) => moved.restored(await journal.readFacts(ids, given), given?.inlineBytes),
    readFactPage: async query => moved.restored(await journal.readFactPage(query), query.inlineBytes),
    readFact: async (jobId, seq) => {
      const data = await journal.readFact(jobId, seq)
      const stub = parseStub(data)
      return stub === null ? data : moved.text({ jobId, seq }, stub)
    },
  }
  // Without the setting an append is unchanged.
  const moving: Partial<Journal> =
    options.outputBytes === null
      ? {}
      : {
          append: batch => moved.append(batch),
          storeOutput: (jobId, text) => moved.storeOutput(jobId, text),
        }
  return overriding(journal, { ...own, ...moving })
}

/** Of a process that only reads, with the content store that the settings name. */
export function readingMovedFacts(journal: Journal, location: string): Journal {
  const place = configuredContentPlace(location)
  return withMovedFacts(journal, {
    ...{ content: place && openContentStore(place), outputBytes: null, now: Date.now },
  })
}

/** The same object with some members of its own, which can be replaced. */
function overriding<T extends object>(target: T, own: Partial<T>): T {
  return new Proxy(target, {
    set: (_, name, value) => Reflect.set(name in own ? own : target, name, value),
    get: (_, name) => {
      if (name in own) return own[name as keyof T]
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === "function" ? member.bind(target) : member
    },
  })
}

function parseStub(data: string | null): Stub | null {
  return data?.startsWith(MARK) ? (JSON.parse(data) as { readonly $moved: Stub }).$moved : null
}

type Fact = Pick<FactRow, "jobId" | "seq">

class MovedFacts {
  readonly #journal: Journal
  readonly #options: MovedFactsOptions
  readonly #kept = new Map<string, string>()
  #keptBytes = 0
  /** An append is resent unchanged. */
  readonly #sent = new WeakMap<Batch, Promise<Batch>>()
  #pausedUntil = 0
  /** Oldest first. */
  readonly #ready = new Set<Ready>()
  #readyBytes = 0

  constructor(journal: Journal, options: MovedFactsOptions) {
    this.#journal = journal
    this.#options = options
  }

  async append(batch: Batch) {
    const large = batch.facts.filter(fact => this.#isLarge(fact))
    if (large.length === 0 || this.#options.content === null) return this.#journal.append(batch)
    const sent = this.#sent.get(batch) ?? this.#moved(batch, large)
    this.#sent.set(batch, sent)
    return this.#journal.append(await sent)
  }

  storeOutput(jobId: string, text: string): Promise<void> | undefined {
    const { content, outputBytes, now } = this.#options
    if (content === null || outputBytes === null || text.length <= outputBytes) return undefined
    return this.#store(text).then(stub => {
      if (stub === null) return
      this.#ready.add({ jobId, text, stub, at: now() })
      this.#readyBytes += text.length
      for (const ready of this.#ready) {
        if (this.#readyBytes <= READY_BYTES && now() - ready.at < READY_MS) break
        this.#forget(ready)
      }
    })
  }

  #forget(ready: Ready): void {
    if (this.#ready.delete(ready)) this.#readyBytes -= ready.text.length
  }

  /** The stub of a fact whose output is stored: the output is the last field of its text. */
  #readyStub({ jobId, data }: NewFact): Stub | null {
    for (const ready of this.#ready) {
      const { text, stub, at } = ready
      const start = data.length - AFTER.length - text.length
      if (ready.jobId !== jobId || start <= 0 || !data.startsWith(text, start) || !data.endsWith(AFTER))
        continue
      this.#forget(ready)
      const before = data.slice(0, start)
      // With the output of its job the rest may be large too.
      if (this.#options.now() - at >= READY_MS || before.length > this.#options.outputBytes!) return null
      return { ...stub, bytes: stub.bytes + Buffer.byteLength(before) + AFTER.length, before }
    }
    return null
  }

  #isLarge({ type, data }: NewFact): boolean {
    return (
      data.length > (this.#options.outputBytes ?? Number.POSITIVE_INFINITY) &&
      (type === "node_completed" || type === "item_completed")
    )
  }

  async #moved(batch: Batch, large: readonly NewFact[]): Promise<Batch> {
    const stubs = new Map<NewFact, Stub>()
    const store = async (fact: NewFact) => {
      const stub = this.#readyStub(fact) ?? (await this.#store(fact.data))
      if (stub !== null) stubs.set(fact, stub)
    }
    await Promise.all(large.map(store))
    failpoint("output.moved")
    const held = [...stubs].map(([{ partition, jobId: by }, { hash }]) => ({
      ...{ partition, by, held: heldArtifact(MOVED_OWNER, hash) },
    }))
    const facts = batch.facts.map(fact => {
      const stub = stubs.get(fact)
      return stub === undefined ? fact : { ...fact, data: JSON.stringify({ $moved: stub }) }
    })
    return { ...batch, facts, held: [...(batch.held ?? []), ...held] }
  }

  /** null: it stays in the database. */
  async #store(text: string): Promise<Stub | null> {
    const { content, now, onFailure } = this.#options
    if (now() < this.#pausedUntil) return null
    try {
      const signal = AbortSignal.timeout(WRITE_MS)
      const limits = { maxBytes: Number.MAX_SAFE_INTEGER, type: TYPE, signal }
      const { hash, bytes, key } = await content!.write(MOVED_OWNER, bodyChunks(text), limits)
      const row = await this.#journal.artifacts.put({
        ...{ owner: MOVED_OWNER, hash, key, bytes, name: "output", type: TYPE, at: now() },
      })
      if (row.key !== key) await content!.remove(key).catch(() => {})
      // Until the append holds it: the sweep marks nothing that was claimed just now.
      const claimed = await this.#journal.artifacts.claim({ owner: MOVED_OWNER, hashes: [hash], at: now() })
      return row.key === null || claimed.length === 0 ? null : { key: row.key, hash, bytes }
    } catch (error) {
      this.#pausedUntil = now() + PAUSE_MS
      onFailure?.(error)
      return null
    }
  }

  /** Larger data than `inlineBytes` is left out, as for facts in the database. */
  async restored<T extends Fact & Pick<FactRow, "data" | "bytes">>(
    rows: readonly T[],
    inlineBytes = Number.POSITIVE_INFINITY,
  ): Promise<T[]> {
    if (!rows.some(({ data }) => data?.startsWith(MARK))) return rows as T[]
    const restored: T[] = []
    for (const row of rows) {
      const stub = parseStub(row.data)
      if (stub === null) restored.push(row)
      else {
        const { bytes } = stub
        restored.push({ ...row, bytes, data: bytes > inlineBytes ? null : await this.text(row, stub) })
      }
    }
    return restored
  }

  async text(fact: Fact, stub: Stub): Promise<string> {
    // Facts with equal outputs have one content.
    const name = `${stub.key} ${stub.before ?? ""}`
    const known = this.#kept.get(name)
    if (known !== undefined) return known
    const text = await this.#read(fact, stub)
    this.#kept.set(name, text)
    this.#keptBytes += text.length
    for (const [key, { length }] of this.#kept) {
      if (this.#keptBytes <= KEPT_BYTES) break
      this.#kept.delete(key)
      this.#keptBytes -= length
    }
    return text
  }

  async #read({ jobId, seq }: Fact, { key, bytes, before }: Stub): Promise<string> {
    const store = this.#options.content
    if (store === null) throw noContentStore()
    try {
      const chunks: Uint8Array[] = []
      for await (const chunk of await store.read(key)) chunks.push(chunk)
      const content = Buffer.concat(chunks).toString()
      const text = before === undefined ? content : `${before}${content}${AFTER}`
      if (Buffer.byteLength(text) === bytes) return text
    } catch (error) {
      if (error instanceof UmbraError && error.code === "E801")
        throw new JournalUnavailableError(error.message, { cause: error })
      if (!(error instanceof UmbraError) || error.code !== "E802") throw error
    }
    throw new UmbraError(
      "E507",
      `The output of fact ${seq} of job ${jobId} is not in the artifact store (${key}). Restore the content from a backup.`,
    )
  }
}
