/** What of the server's answers needs a person, and in which words. */
import { duration, elapsed } from "../model/format.ts"

interface Usual {
  readonly count: number
  readonly p50: number
  readonly p99: number
}

export interface WaitGroup {
  readonly kind: string
  readonly subject: string
  readonly sentence: string
  readonly action: string | null
  readonly jobs: number
  readonly nodes: number
  readonly since: string | null
  readonly usual: Usual | null
  readonly examples: readonly {
    readonly job_id: string
    readonly workflow: string
    readonly node: string
    readonly since: string | null
    readonly until: string | null
  }[]
}

export interface Waits {
  readonly at: string
  readonly groups: readonly WaitGroup[]
  readonly jobs: number
  readonly running: number
  readonly complete: boolean
}

/** These do not end without a person. */
const always: ReadonlySet<string> = new Set([
  ...["no_worker", "worker_refused", "paused"],
  ...["owner_away", "store_away", "quarantined", "unexplained"],
])
/** These end by themselves: a person is needed if they take unusually long. */
const queues: ReadonlySet<string> = new Set([
  ...[
    "slot",
    "rate",
    "worker_busy",
    "worker_isolated",
    "executions",
    "job_queue",
    "starting",
    "backpressure",
  ],
])
/** With fewer waits behind it, the usual time is not known. */
const ENOUGH = 20
const SHORTEST_MS = 10_000
const WITHOUT_DATA_MS = 10 * 60_000

/** `now`: by the server's clock. */
export function isStuck({ kind, since, usual }: WaitGroup, now: number): boolean {
  if (always.has(kind)) return true
  if (!queues.has(kind) || since === null) return false
  const limit = usual !== null && usual.count >= ENOUGH ? Math.max(SHORTEST_MS, usual.p99) : WITHOUT_DATA_MS
  return now - Date.parse(since) > limit
}

const titles: { readonly [kind: string]: (subject: string) => string } = {
  slot: provider => `Slot of ${provider}`,
  rate: provider => `Rate of ${provider}`,
  no_worker: handler => `No worker with handler ${handler}`,
  worker_busy: handler => `Workers with handler ${handler} are busy`,
  worker_refused: handler => `A worker refuses handler ${handler}`,
  worker_isolated: handler => `Handler ${handler} waits to run alone`,
  paused: () => "Paused",
  owner_away: () => "No engine runs these jobs",
  store_away: () => "The database does not answer",
  quarantined: () => "Set aside after an internal error",
  unexplained: () => "No reason is known: a defect of the engine",
  executions: pipeline => `Limit of executions of ${pipeline}`,
  job_queue: () => "Jobs wait for their turn",
  starting: () => "An engine takes jobs over",
  backpressure: route => `Backpressure: route ${route}`,
}

export function titleOf({ kind, subject }: WaitGroup): string {
  return titles[kind]?.(subject) ?? `${kind.replaceAll("_", " ")} ${subject}`.trim()
}

/** `Longest 11 min 20 s, usually 48 s.` */
export function waitText({ since, usual }: WaitGroup, now: number): string {
  if (since === null) return ""
  const longest = `Longest wait ${elapsed(now - Date.parse(since))}`
  return usual === null || usual.count < ENOUGH
    ? `${longest}.`
    : `${longest}, usually ${duration(usual.p50)}.`
}
