/**
 * A day's statistics of 10,000,000 ended jobs, from generated roll-ups: two versions of a workflow with 20 nodes, counted by
 * several engines. Part of `npm run bench -- history`; alone with `BENCH_ONLY=statistics`.
 */
import { Histogram } from "../src/core/statistics/histogram.ts"
import { encodeTotals, newTotals } from "../src/core/statistics/totals.ts"
import type { Journal } from "../src/journal/port/journal.ts"
import type { RollUp } from "../src/journal/port/statistics.ts"
import type { Umbra } from "../src/umbra.ts"

const HOUR = 3_600_000
const HOURS = 24
const VERSIONS = 2
const JOBS = 10_000_000
const RUNS = 15
const nodes = Array.from({ length: 20 }, (_, n) => `node${n}`)

export const measured = (retry: number) => ({
  name: "measured",
  nodes: nodes.map((id, n) => ({
    ...{ id, handler: "transform", config: { value: n }, retry: { max_attempts: retry } },
    dependencies: n === 0 ? [] : [nodes[Math.floor((n - 1) / 2)]!],
  })),
})

/** Rolled up by this many engines, in the name of one partition each. */
export async function fillDay(journal: Journal, engines: number, until: number): Promise<number> {
  const jobs = Math.round(JOBS / HOURS / VERSIONS / engines)
  let rows = 0
  for (let engine = 0; engine < engines; engine++) {
    const partitions = (await journal.readPartitions()).slice(engine, engine + 1)
    const [held] = await journal.takePartitions({ engine: "bench", expected: partitions })
    const { partition, epoch } = held!
    const rollUps: RollUp[] = []
    for (let hour = until - HOURS * HOUR; hour < until; hour += HOUR)
      for (let version = 1; version <= VERSIONS; version++)
        for (const node of ["", ...nodes])
          rollUps.push({ owner: "local", workflow: "measured", version, hour, node, data: data(jobs) })
    const [watermark] = await journal.statistics.watermarks([{ partition, upTo: 0 }])
    const move = { partition, epoch, from: watermark!.seq, to: epoch * 2 ** 34 }
    await journal.statistics.write({ partition, moves: [move], rollUps })
    await journal.releasePartitions({ engine: "bench", held: [held!] })
    rows += rollUps.length
  }
  return rows
}

/** Durations over three and waits over two orders of magnitude: as many buckets and digits as so many jobs leave. */
function data(jobs: number): string {
  const totals = newTotals()
  totals.count = jobs
  totals.failed = Math.round(jobs / 100)
  totals.attempts = jobs + totals.failed
  const spread = (least: number, factor: number) => {
    const sample = new Histogram()
    for (let n = 0; n < 2000; n++) sample.add(least * factor ** ((n * 0.618) % 1))
    return sample.encode().map((value, at) => (at % 2 === 0 ? value : Math.round((value * jobs) / 2000)))
  }
  totals.duration.addEncoded(spread(50, 1000))
  totals.queued.addEncoded(spread(1, 100))
  totals.errors.set("E405", totals.failed)
  for (const [key, sum] of [
    ["tokens", jobs * 100],
    ["cost_usd", jobs / 100],
  ] as const) {
    const histogram = new Histogram()
    for (let n = 0; n < 2000; n++) histogram.addAmount((sum / jobs) * 10 ** ((n * 0.618) % 1))
    totals.usage.set(key, { sum, histogram })
  }
  return encodeTotals(totals)
}

export async function readDay(name: string, umbra: Umbra, to: number): Promise<void> {
  const times: number[] = []
  const cpu: number[] = []
  let jobs = 0
  for (let run = 0; run < RUNS; run++) {
    const [begun, used] = [performance.now(), process.cpuUsage()]
    const found = await umbra.statistics("measured", { from: to - HOURS * HOUR, to })
    times.push(performance.now() - begun)
    const { user, system } = process.cpuUsage(used)
    cpu.push((user + system) / 1000)
    jobs = found.jobs.count
  }
  const median = (values: number[]) => values.sort((a, b) => a - b)[RUNS >> 1]!.toFixed(0)
  console.log(
    `${name}: statistics of a day, ${jobs.toLocaleString("en")} jobs: ${median(times)} ms, ${median(cpu)} ms of processor time (target 200 ms)`,
  )
}
