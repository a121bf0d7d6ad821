/**
 * Removes unreferenced artifacts, in pages. A sweep has three parts: it removes the content of rows that an earlier sweep has
 * marked, and then the rows; it marks rows that nothing has referred to for a day; and it removes content without a row, which
 * a process left behind that died.
 *
 * 1. Content of a marked row is removed before its row: a process that dies in between leaves a marked row, which the next sweep
 *    finds. A put in between gives the row another key, and then it is not removed.
 * 2. Two processes that sweep at once do no harm.
 */
import type { SweepReport } from "../core/artifacts.ts"
import { failpoint } from "../failpoints.ts"
import type { ArtifactName, ArtifactRow, ArtifactStore } from "../journal/port/artifacts.ts"
import type { ContentStore } from "./content-store.ts"
import type { ArtifactSettings } from "./settings.ts"

/**
 * Content gets its row within this time after it was written, and a fact with a new reference is stored within this time after its claim, even
 * if unused content is kept for a shorter time. A claim that is ten seconds old counts for a new reference too
 * (engine/owner/job-artifacts.ts): then the time is shorter by that.
 */
export const GRACE_MS = 60_000
const PAGE = 200
const HOUR_MS = 3600_000

export interface SweepParts {
  readonly rows: ArtifactStore
  readonly content: ContentStore
  readonly settings: Pick<ArtifactSettings, "orphanHours" | "sweepSeconds">
  readonly now: () => number
}

export interface SweepOptions {
  /** Counts only. */
  readonly dryRun?: boolean | undefined
}

type Part = keyof SweepReport

export class ArtifactSweep {
  readonly #parts: SweepParts
  #pages: AsyncGenerator<void> | null = null

  constructor(parts: SweepParts) {
    this.#parts = parts
  }

  /** One page. Resolves with whether the sweep has more of them. */
  async step(): Promise<boolean> {
    this.#pages ??= this.#sweep(new Counts(), {})
    try {
      const { done } = await this.#pages.next()
      if (done !== true) return true
      this.#pages = null
      return false
    } catch (error) {
      this.#pages = null
      throw error
    }
  }

  /** A whole sweep. */
  async run(options: SweepOptions = {}): Promise<SweepReport> {
    const counts = new Counts()
    for await (const _ of this.#sweep(counts, options));
    return counts.report
  }

  async *#sweep(counts: Counts, options: SweepOptions): AsyncGenerator<void> {
    yield* this.#removeMarked(counts, options)
    yield* this.#mark(counts, options)
    yield* this.#removeOrphans(counts, options)
  }

  async *#removeMarked(counts: Counts, { dryRun = false }: SweepOptions): AsyncGenerator<void> {
    const { rows, content, settings, now } = this.#parts
    // Sweeps are this far apart; one that begins earlier, because a process has started, leaves it to the next.
    const before = now() - (settings.sweepSeconds * 1000) / 2
    for (;;) {
      const page = await rows.marked({ before, limit: PAGE })
      counts.add("removed", page)
      if (dryRun) return
      for (const row of page) {
        if (row.key !== null) await content.remove(row.key)
        failpoint("artifact.removed")
        await rows.forget(row)
      }
      if (page.length < PAGE) return
      yield
    }
  }

  async *#mark(counts: Counts, { dryRun = false }: SweepOptions): AsyncGenerator<void> {
    const { rows, now } = this.#parts
    const before = now() - this.#orphanMs
    const claimedBefore = now() - Math.max(this.#orphanMs, GRACE_MS)
    let after: ArtifactName | null = null
    do {
      const page: { readonly marked: readonly ArtifactRow[]; readonly next: ArtifactName | null } =
        await rows.mark({ before, claimedBefore, at: now(), after, limit: PAGE, dryRun })
      counts.add("marked", page.marked)
      if (page.marked.length > 0) failpoint("artifact.marked")
      after = page.next
      yield
    } while (after !== null)
  }

  async *#removeOrphans(counts: Counts, { dryRun = false }: SweepOptions): AsyncGenerator<void> {
    const { rows, content, now } = this.#parts
    const before = now() - Math.max(this.#orphanMs, GRACE_MS)
    let after: string | undefined
    for (;;) {
      const page = await content.list({ after, limit: PAGE })
      const old = page.filter(({ written }) => written.getTime() < before)
      const known = new Set(old.length === 0 ? [] : await rows.knownKeys(old.map(({ key }) => key)))
      const orphans = old.filter(({ key }) => !known.has(key))
      counts.add("orphans", orphans)
      if (!dryRun)
        for (const { key } of orphans) {
          await content.remove(key)
          failpoint("artifact.orphan_removed")
        }
      if (page.length < PAGE) return
      after = page.at(-1)!.key
      yield
    }
  }

  get #orphanMs(): number {
    return this.#parts.settings.orphanHours * HOUR_MS
  }
}

class Counts {
  readonly report: Record<Part, { count: number; bytes: number }> = {
    removed: { count: 0, bytes: 0 },
    marked: { count: 0, bytes: 0 },
    orphans: { count: 0, bytes: 0 },
  }

  add(part: Part, found: readonly { readonly bytes: number }[]): void {
    this.report[part].count += found.length
    for (const { bytes } of found) this.report[part].bytes += bytes
  }
}
