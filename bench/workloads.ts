import type { Json } from "../src/core/json.ts"

/** The workloads that every engine is measured on. The handler does nothing: the engine is measured. */
export interface Workload {
  readonly name: string
  readonly nodes: readonly {
    readonly id: string
    readonly handler: string
    readonly dependencies: readonly string[]
  }[]
  readonly jobs: number
  readonly inFlight: number
}

export const noopOutput: Json = { ok: true, i: 1 }

export function workloads(scale: number): Workload[] {
  const jobs = (count: number) => Math.max(1, Math.round(count * scale))
  return [
    { name: "single, 100 in flight", nodes: chain(1), jobs: jobs(20_000), inFlight: 100 },
    { name: "chain of 10, one in flight", nodes: chain(10), jobs: jobs(200), inFlight: 1 },
    { name: "chain of 10, 100 in flight", nodes: chain(10), jobs: jobs(5000), inFlight: 100 },
    { name: "fan 1-100-1, one in flight", nodes: fan(100), jobs: jobs(100), inFlight: 1 },
    { name: "fan 1-100-1, 10 in flight", nodes: fan(100), jobs: jobs(600), inFlight: 10 },
    { name: "1,000 parallel nodes", nodes: fan(1000), jobs: jobs(20), inFlight: 1 },
    { name: "10,000 parallel nodes", nodes: fan(10_000), jobs: 1, inFlight: 1 },
    { name: "100,000 parallel nodes", nodes: fan(99_998), jobs: 1, inFlight: 1 },
  ]
}

/** Every second node only computes: the glue between those that run a handler. */
export function glued(scale: number): Workload {
  const nodes = chain(11).map((node, i) => (i % 2 === 0 ? { ...node, handler: "transform" } : node))
  const jobs = Math.max(1, Math.round(1250 * scale))
  return { name: "chain of 5 and glue, 100 in flight", nodes, jobs, inFlight: 100 }
}

function chain(length: number): Workload["nodes"] {
  return Array.from({ length }, (_, i) => ({
    id: `n${i}`,
    handler: "noop",
    dependencies: i === 0 ? [] : [`n${i - 1}`],
  }))
}

function fan(width: number): Workload["nodes"] {
  const middle = Array.from({ length: width }, (_, i) => ({
    id: `n${i}`,
    handler: "noop",
    dependencies: ["first"],
  }))
  return [
    { id: "first", handler: "noop", dependencies: [] },
    ...middle,
    { id: "last", handler: "noop", dependencies: middle.map(node => node.id) },
  ]
}

export interface Measured {
  readonly nodesPerSecond: number
  readonly jobsPerSecond: number
  /** Median time of one job. */
  readonly p50: number
}

/** Runs `inFlight` jobs at a time until `jobs` are done. */
export async function drive(workload: Workload, runJob: () => Promise<void>): Promise<Measured> {
  let started = 0
  const latencies: number[] = []
  const begin = performance.now()
  const lane = async (): Promise<void> => {
    while (started < workload.jobs) {
      started++
      const at = performance.now()
      await runJob()
      latencies.push(performance.now() - at)
    }
  }
  await Promise.all(Array.from({ length: workload.inFlight }, lane))
  const seconds = (performance.now() - begin) / 1000
  latencies.sort((a, b) => a - b)
  return {
    nodesPerSecond: (workload.jobs * workload.nodes.length) / seconds,
    jobsPerSecond: workload.jobs / seconds,
    p50: latencies[latencies.length >> 1]!,
  }
}
