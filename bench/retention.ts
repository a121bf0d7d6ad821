/**
 * One-node jobs at a fixed rate, whether or not they end in time (open loop), while retention removes those that ended.
 * A time is measured from the moment at which the job should have been submitted.
 *
 *     npm run bench -- retention                                          # 3 minutes, jobs are kept for 10 s
 *     npm run bench -- retention --minutes 60 --rate 4000 --retention 120
 *     npm run bench -- retention --store sqlite
 *     npm run bench -- retention --pipeline --rate 10000                  # messages per second
 *
 * Runs of less than ten minutes are compared with their first 30 seconds, in which nothing is removed; longer ones with
 * their first five minutes.
 */
import { openJournal } from "../src/journal/open.ts"
import type { Journal } from "../src/journal/port/journal.ts"
import type { Adapter } from "../src/pipeline/adapter.ts"
import { openUmbra, type Umbra } from "../src/umbra.ts"
import { defineHandler } from "../src/worker/handler.ts"
import { adapters, pipeline } from "./pipeline-load.ts"
import { type BenchStore, type Figures, postgresStore, sqliteStore } from "./retention-store.ts"
import { judge, type Period, percent, quantile } from "./retention-verdict.ts"
import { noopOutput } from "./workloads.ts"

export interface RetentionOptions {
  readonly minutes: number
  /** Jobs per second; with `pipeline`, messages per second. */
  readonly rate: number
  /** Seconds that an ended job is kept; with `pipeline`, that its lineage is, and the job twice as long. */
  readonly retention: number
  readonly store: string
  readonly pipeline: boolean
}

const WARM_UP_SECONDS = 5
const SHORT_MINUTES = 10
const SHORT_PERIOD_SECONDS = 10
const SHORT_BASELINE_SECONDS = 30
const BASELINE_SECONDS = 300
/** Autovacuum looks at a database once a minute (`autovacuum_naptime`): sizes are constant after its first look. */
const VACUUM_SECONDS = 60

const noop = defineHandler({ name: "noop", run: () => noopOutput })
const single = { name: "single", nodes: [{ id: "a", handler: "noop" }] }

export async function retention(options: RetentionOptions): Promise<void> {
  const store = options.store === "sqlite" ? await sqliteStore() : await postgresStore()
  try {
    const kept = `${options.pipeline ? "lineage" : "jobs"} kept for ${options.retention} s`
    const unit = options.pipeline ? "messages" : "jobs"
    console.log(`  ${store.name}: ${options.rate} ${unit}/s for ${options.minutes} min, ${kept}`)
    await new Run(store, options).measure()
  } finally {
    await store.close()
  }
}

class Run {
  readonly #store: BenchStore
  readonly #options: RetentionOptions
  readonly #removals = new Removals()
  readonly #isShort: boolean
  readonly #periods: Period[] = []
  readonly #firsts: number[] = []
  #begun = 0

  constructor(store: BenchStore, options: RetentionOptions) {
    this.#store = store
    this.#options = options
    this.#isShort = options.minutes < SHORT_MINUTES
  }

  async measure(): Promise<void> {
    let load = new Load(await this.#open(this.#isShort ? null : this.#options.retention), this.#options)
    await load.run(WARM_UP_SECONDS)
    load.take()
    this.#begun = performance.now()
    const baseline = this.#isShort ? SHORT_BASELINE_SECONDS : BASELINE_SECONDS
    await this.#phase(load, baseline)
    if (this.#isShort) {
      await load.close()
      load = new Load(await this.#open(this.#options.retention), this.#options)
    }
    await this.#phase(load, this.#options.minutes * 60 - baseline)
    this.#verdict(baseline)
    await load.close()
  }

  async #open(retentionSeconds: number | null): Promise<Umbra> {
    const journal = await openJournal(this.#store.location)
    const { pipeline: isPipeline } = this.#options
    const jobs = isPipeline && retentionSeconds !== null ? 2 * retentionSeconds : retentionSeconds
    return openUmbra(this.#removals.watch(journal), {
      ...{ handlers: [noop], worker: { concurrency: 1000 } },
      // They are declared with the types of the built package.
      adapters: adapters as readonly unknown[] as readonly Adapter[],
      engine: { retentionSeconds: jobs, lineageRetentionSeconds: retentionSeconds },
    })
  }

  async #phase(load: Load, seconds: number): Promise<void> {
    const period = this.#isShort ? SHORT_PERIOD_SECONDS : 60
    for (let left = seconds; left > 0; left -= period) {
      const at = performance.now()
      await load.run(Math.min(period, left))
      const times = load.take()
      const { retention: kept, pipeline: isPipeline } = this.#options
      const figures = await this.#store.figures(Date.now() - kept * 1000 * (isPipeline ? 2 : 1))
      const rate = (times.length * 1000 * load.unit) / (performance.now() - at)
      this.#add(times, rate, figures)
    }
  }

  #add(times: readonly number[], rate: number, figures: Figures): void {
    const until = (performance.now() - this.#begun) / 1000
    const sorted = [...times].sort((a, b) => a - b)
    const period = { ...figures, until, rate, p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) }
    this.#periods.push(period)
    if (until <= (this.#isShort ? SHORT_BASELINE_SECONDS : BASELINE_SECONDS) + 1) {
      // Not `push(...times)`: a minute has more entries than a call may have arguments.
      for (const time of times) this.#firsts.push(time)
    }
    const { calls, longest, removed, largest, perSecond } = this.#removals.take()
    const total = [...figures.bytes.values()].reduce((sum, size) => sum + size, 0)
    const sizes = [...figures.bytes]
      .filter(([, size]) => size >= 2 ** 20)
      .sort((a, b) => b[1] - a[1])
      .map(([name, size]) => `${name} ${megabytes(size)}`)
    console.log(
      [
        `  ${until.toFixed(0).padStart(5)} s: ${rate.toFixed(0)}/s`,
        `p50 ${period.p50.toFixed(1)} p99 ${period.p99.toFixed(1)} ms`,
        `rows ${figures.rows} dead ${figures.dead} vacuums ${figures.vacuums}`,
        `backlog ${figures.backlog}`,
        `removed ${removed} in ${calls} calls (at most ${largest} in a call, ${perSecond} in a second; longest ${longest.toFixed(0)} ms)`,
        `${megabytes(total)} MB`,
        `RSS ${megabytes(process.memoryUsage().rss)} MB`,
      ].join(", "),
    )
    console.log(`           MB: ${sizes.join(", ")}`)
  }

  #verdict(baselineSeconds: number): void {
    const { rate, retention: kept, pipeline: isPipeline } = this.#options
    const baseline = quantile(
      this.#firsts.sort((a, b) => a - b),
      0.99,
    )
    const judged = this.#periods.filter(({ until }) => until > baselineSeconds + 1)
    const steadyFrom = (this.#isShort ? baselineSeconds : 0) + kept * (isPipeline ? 2 : 1) + VACUUM_SECONDS
    const verdicts = judge(judged, { rate, baseline, steadyFrom })
    for (const { target, isMet, found } of verdicts)
      console.log(`  ${isMet ? "pass" : "FAIL"}  ${target}: ${found}`)
    const met = verdicts.filter(({ isMet }) => isMet).length
    console.log(`  ${percent(met / verdicts.length)} of the targets met`)
    if (met < verdicts.length) process.exitCode = 1
  }
}

/** Offers jobs at a fixed rate. */
class Load {
  /** Jobs, or messages of one execution per second. */
  readonly unit: number
  readonly #umbra: Umbra
  readonly #perSecond: number
  readonly #open = new Set<Promise<void>>()
  #times: number[] = []
  #failure: unknown

  constructor(umbra: Umbra, { rate, pipeline: isPipeline }: RetentionOptions) {
    this.#umbra = umbra
    this.unit = isPipeline ? rate : 1
    this.#perSecond = isPipeline ? 1 : rate
  }

  async run(seconds: number): Promise<void> {
    const begun = performance.now()
    const count = Math.round(seconds * this.#perSecond)
    for (let sent = 0; sent < count; ) {
      const due = Math.min(count, Math.floor(((performance.now() - begun) * this.#perSecond) / 1000) + 1)
      for (; sent < due; sent++) this.#submit(begun + (sent * 1000) / this.#perSecond)
      await new Promise(resolve => setTimeout(resolve, 2))
      if (this.#failure !== undefined) throw this.#failure
    }
    const rest = begun + seconds * 1000 - performance.now()
    if (rest > 0) await new Promise(resolve => setTimeout(resolve, rest))
  }

  /** The times of the jobs that ended since the last call. */
  take(): number[] {
    const taken = this.#times
    this.#times = []
    return taken
  }

  async close(): Promise<void> {
    await Promise.all(this.#open)
    await this.#umbra.close()
  }

  #submit(at: number): void {
    const running = this.#runJob()
      .then(() => void this.#times.push(performance.now() - at))
      .catch(error => {
        this.#failure ??= error
      })
      .finally(() => this.#open.delete(running))
    this.#open.add(running)
  }

  async #runJob(): Promise<void> {
    const job =
      this.unit === 1
        ? await this.#umbra.submit(single, { a: 1 })
        : await this.#umbra.submit(pipeline(1), { count: this.unit })
    const { status } = await job.wait()
    if (status !== "COMPLETED") throw new Error(`job ${job.id} is ${status}`)
  }
}

/** Counts what retention removes, and how long its calls take, waiting for a connection included. */
class Removals {
  #calls = 0
  #longest = 0
  #removed = 0
  #largest = 0
  #seconds = new Map<number, number>()

  watch(journal: Journal): Journal {
    const { pipelines } = journal
    journal.purge = this.#timed(journal.purge.bind(journal))
    pipelines.purgeLineage = this.#timed(pipelines.purgeLineage.bind(pipelines))
    return journal
  }

  take() {
    const perSecond = Math.max(0, ...this.#seconds.values())
    const taken = {
      calls: this.#calls,
      longest: this.#longest,
      removed: this.#removed,
      largest: this.#largest,
    }
    this.#calls = this.#longest = this.#removed = this.#largest = 0
    this.#seconds = new Map()
    return { ...taken, perSecond }
  }

  #timed<Argument, Result>(
    call: (argument: Argument) => Promise<Result>,
  ): (argument: Argument) => Promise<Result> {
    return async argument => {
      const at = performance.now()
      const result = await call(argument)
      const removed = Number(result)
      this.#calls++
      this.#longest = Math.max(this.#longest, performance.now() - at)
      this.#removed += removed
      this.#largest = Math.max(this.#largest, removed)
      const second = Math.floor(performance.now() / 1000)
      this.#seconds.set(second, (this.#seconds.get(second) ?? 0) + removed)
      return result
    }
  }
}

const megabytes = (bytes: number) => (bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)
