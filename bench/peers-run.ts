/** What a run of `bench -- peers` measures, and the file it leaves. */

export interface PeerWorkload {
  readonly name: string
  readonly title: string
  /** For the heading of a narrow column. */
  readonly short: string
  readonly shape: "single" | "chain" | "fan" | "wide"
  /** Null: all jobs are submitted at once. */
  readonly inFlight: number | null
  /** Steps per second, or the median time of a job. */
  readonly unit: "steps/s" | "ms"
}

const WORKLOADS: readonly PeerWorkload[] = [
  {
    name: "single",
    title: "one-node jobs, 100 in flight",
    short: "one node, 100 in flight",
    shape: "single",
    inFlight: 100,
    unit: "steps/s",
  },
  {
    name: "bulk",
    title: "one-node jobs, all submitted at once",
    short: "one node, all at once",
    shape: "single",
    inFlight: null,
    unit: "steps/s",
  },
  {
    name: "chain-alone",
    title: "chain of 10 alone",
    short: "chain of 10 alone",
    shape: "chain",
    inFlight: 1,
    unit: "ms",
  },
  {
    name: "chain",
    title: "chain of 10, 100 in flight",
    short: "chain of 10, 100 in flight",
    shape: "chain",
    inFlight: 100,
    unit: "steps/s",
  },
  {
    name: "fan-alone",
    title: "fan 1-100-1 alone",
    short: "fan 1-100-1 alone",
    shape: "fan",
    inFlight: 1,
    unit: "ms",
  },
  {
    name: "fan",
    title: "fan 1-100-1, 10 in flight",
    short: "fan 1-100-1, 10 in flight",
    shape: "fan",
    inFlight: 10,
    unit: "steps/s",
  },
  {
    name: "wide",
    title: "many nodes and a join that reads all",
    short: "many nodes and a join",
    shape: "wide",
    inFlight: 1,
    unit: "steps/s",
  },
]

/** The workloads of a run, whose last one has a job of `width` nodes. */
export const workloadsOf = ({ width }: { readonly width: number }): readonly PeerWorkload[] =>
  WORKLOADS.map(workload => ({
    ...workload,
    title: workload.title.replace("many", width.toLocaleString("en")),
    short: workload.short.replace("many", width.toLocaleString("en")),
  }))

export interface Repetition {
  readonly jobs: number
  readonly stepsPerSecond: number
  /** Times of a job in milliseconds. */
  readonly p50?: number
  readonly p99?: number
  readonly acceptedPerSecond?: number
}

export interface Outcome {
  readonly repetitions: readonly Repetition[]
  /** Why there are fewer repetitions than asked for. */
  readonly error: string | null
}

export interface PeerRun {
  readonly name: string
  readonly title: string
  /** By package. */
  readonly versions: Readonly<Record<string, string>>
  readonly configuration: string
  readonly outcomes: Readonly<Record<string, Outcome>>
}

export interface Run {
  readonly startedAt: string
  readonly endedAt: string
  readonly quick: boolean
  readonly repetitions: number
  readonly seconds: number
  /** Jobs of the bulk. */
  readonly jobs: number
  /** Nodes of the wide job, without the join. */
  readonly width: number
  readonly machine: {
    readonly cores: number
    readonly processor: string
    readonly memoryGb: number
    readonly node: string
    readonly postgres: string
    readonly redis: string
    readonly commitMs: number
  }
  /** Load averages of the machine over one minute. */
  readonly load: { readonly atStart: number; readonly atEnd: number }
  readonly peers: readonly PeerRun[]
}

/** The figure of a peer and workload, with its spread. Null: it could not be measured. */
export interface Figure {
  readonly median: number
  readonly least: number
  readonly most: number
}

export function figureOf(peer: PeerRun, workload: PeerWorkload): Figure | null {
  const { repetitions } = peer.outcomes[workload.name] ?? { repetitions: [] }
  return figure(repetitions.map(one => (workload.unit === "ms" ? one.p50! : one.stepsPerSecond)))
}

export function acceptedOf(peer: PeerRun): Figure | null {
  const { repetitions } = peer.outcomes.bulk ?? { repetitions: [] }
  return figure(repetitions.flatMap(one => one.acceptedPerSecond ?? []))
}

function figure(values: readonly number[]): Figure | null {
  if (values.length === 0) return null
  return { median: median(values), least: Math.min(...values), most: Math.max(...values) }
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

export const isBetter = ({ unit }: PeerWorkload, one: number, other: number): boolean =>
  unit === "ms" ? one < other : one > other

export const format = ({ unit }: { unit: "steps/s" | "ms" }, value: number): string =>
  value.toLocaleString("en", unit === "ms" ? tenths : { maximumFractionDigits: 0 })

const tenths = { minimumFractionDigits: 1, maximumFractionDigits: 1 }
