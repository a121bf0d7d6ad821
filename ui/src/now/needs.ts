/** Selects what needs a person from the server's responses, counts it, and words it. */
import { useQuery } from "@tanstack/react-query"
import { ask } from "../api/http.ts"
import { may, type Session } from "../api/session.ts"
import { duration, elapsed } from "../model/format.ts"
import type { ExecutionPage } from "../pipeline/page.tsx"
import type { Failures, Workers } from "./groups.tsx"

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
    readonly item: number | null
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
  readonly next: string | null
}

const HOUR_MS = 3_600_000

export function hoursAgo(hours: number): string {
  return new Date(Date.now() - hours * HOUR_MS).toISOString()
}

export const ranges = { "6 h": 6, "24 h": 24, "7 d": 7 * 24 } as const
export type Range = keyof typeof ranges

/** What the page Now and the number beside its name read. */
export const failuresQuery = (range: Range) => ({
  queryKey: ["now", "failures", range],
  queryFn: ({ signal }: Reading) =>
    ask<Failures>("/failures", { query: { from: hoursAgo(ranges[range]) }, signal }),
})
export const waitsQuery = {
  queryKey: ["now", "waits"],
  queryFn: ({ signal }: Reading) => readWaits(signal),
}
export const workersQuery = (isAdmin: boolean) => ({
  queryKey: ["now", "workers", isAdmin],
  queryFn: ({ signal }: Reading) => ask<Workers>(isAdmin ? "/workers" : "/health", { signal }),
})
export const deadQuery = {
  queryKey: ["now", "dead"],
  queryFn: ({ signal }: Reading) =>
    ask<ExecutionPage>("/executions", { query: { dead_letters: "true", limit: 20 }, signal }),
}

interface Reading {
  readonly signal: AbortSignal
}

/** A page that is opened within this time reads nothing again for the number in the navigation, and an open page never does. */
const FRESH_MS = 60_000

/** undefined: not known. */
export function useThings(session: Session): number | undefined {
  const failures = useQuery({ ...failuresQuery("6 h"), staleTime: FRESH_MS }).data
  const waits = useQuery({ ...waitsQuery, staleTime: FRESH_MS }).data
  const workers = useQuery({ ...workersQuery(may(session, "admin")), staleTime: FRESH_MS }).data
  const dead = useQuery({ ...deadQuery, staleTime: FRESH_MS }).data
  if (failures === undefined || waits === undefined || workers === undefined || dead === undefined)
    return undefined
  return thingsIn({ failures, waits, workers, dead }, Date.now())
}

interface Answers {
  readonly failures: Failures
  readonly waits: Waits
  readonly workers: Workers
  readonly dead: ExecutionPage
}

export function thingsIn({ failures, waits, workers: { workers }, dead }: Answers, now: number): number {
  const gone = Array.isArray(workers)
    ? (workers as readonly { readonly state: string }[]).filter(({ state }) => state !== "live").length
    : ["dead", "outdated"].filter(state => (workers as { readonly [state: string]: number })[state]! > 0)
        .length
  const waiting = waits.groups.reduce(
    (sum, group) =>
      sum + (group.kind === "signal" ? group.jobs : group.kind === "breaker" || isStuck(group, now) ? 1 : 0),
    0,
  )
  return failures.groups.length + waiting + gone + dead.executions.length
}

/** One answer explains a bounded number of jobs, the newest first: those that wait longest may be further back. */
const MOST_PAGES = 5

export async function readWaits(signal: AbortSignal): Promise<Waits> {
  let all = await ask<Waits>("/waits", { signal })
  for (let page = 1; page < MOST_PAGES && all.next !== null; page++) {
    const older = await ask<Waits>("/waits", { query: { after: all.next }, signal })
    all = {
      ...older,
      ...{ jobs: all.jobs + older.jobs, running: all.running + older.running },
      groups: joined([...all.groups, ...older.groups]),
    }
  }
  return all
}

/** Merges groups of the same cause; the sentence is that of the longest wait. */
function joined(groups: readonly WaitGroup[]): readonly WaitGroup[] {
  const found = new Map<string, WaitGroup>()
  for (const group of groups) {
    const key = `${group.kind} ${group.subject}`
    const known = found.get(key)
    const longest = known === undefined || (group.since ?? "~") < (known.since ?? "~") ? group : known
    found.set(key, {
      ...longest,
      jobs: group.jobs + (known?.jobs ?? 0),
      nodes: group.nodes + (known?.nodes ?? 0),
      examples: [...group.examples, ...(known?.examples ?? [])].toSorted((a, b) =>
        (a.since ?? "~") < (b.since ?? "~") ? -1 : 1,
      ),
    })
  }
  return [...found.values()]
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
/** A wait in a queue, which advances as others end. */
export function isQueue({ kind }: WaitGroup): boolean {
  return queues.has(kind)
}

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
  quarantined: () => "Quarantined after an internal error",
  unexplained: () => "No reason is known: a defect of the engine",
  executions: pipeline => `Limit of executions of ${pipeline}`,
  job_queue: () => "Jobs wait for their turn",
  starting: () => "An engine takes jobs over",
  backpressure: route => `Backpressure: route ${route}`,
}

export function groupTitle({ kind, subject }: WaitGroup): string {
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
