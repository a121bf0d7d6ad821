/** What can happen to a simulated job, as data that fast-check can make and shrink. */
import fc from "../support/property.ts"

export type Result =
  | { readonly kind: "completed"; readonly usage: boolean; readonly job: "plain" | "output" | "fault" }
  | { readonly kind: "failed"; readonly retryable: boolean; readonly retryAfter: number | null }
  | { readonly kind: "timer"; readonly seconds: number }
  | {
      readonly kind: "signal"
      readonly name: string
      readonly seconds: number | null
      readonly byDefault: boolean
    }
  | { readonly kind: "child" }
  | { readonly kind: "skip" | "joined" | "preview" | "slot" | "lost" | "returned" | "aborted" }
  | { readonly kind: "started"; readonly alone: boolean; readonly otherDied: boolean }
  | { readonly kind: "submitted"; readonly polls: boolean; readonly ttl: number | null }

const allNews = [
  ...(["completed", "failed", "final", "running", "preview"] as const),
  ...(["error", "last_error", "hint", "postponed"] as const),
] as const
export type News = (typeof allNews)[number]

export type Action =
  /** From `live`: a task some worker has. `ever`: any task there ever was. `forged`: a node and attempt nobody gave out. */
  | {
      readonly do: "answer"
      readonly from: "live" | "ever" | "forged"
      readonly pick: number
      readonly result: Result
    }
  | { readonly do: "signal"; readonly name: string }
  | { readonly do: "grant"; readonly pick: number }
  /** Of `current`: what some node waits for, or is about to submit again. `ever`: of any operation there ever was, for any node. */
  | {
      readonly do: "news"
      readonly of: "current" | "ever"
      readonly pick: number
      readonly news: News
      readonly byPoll: boolean
      /** `stale`: a token from before; undefined: none is given. */
      readonly token: "current" | "stale" | undefined
      readonly maxErrors: number | null
    }
  /** Time goes by; with `wakes`, the owner notices. */
  | { readonly do: "pass"; readonly seconds: number; readonly wakes: boolean }
  | { readonly do: Deed }

type Deed = "crash" | "hand_over" | "cancel" | "retry" | "delete" | "fail_job" | "settle" | Said
type Said = "pause" | "resume" | "describe" | "reschedule"

const seconds = fc.constantFrom(0, 1, 15, 31, 200)
const names = fc.constantFrom("approve", "pay")

const results: fc.Arbitrary<Result> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("completed" as const),
      usage: fc.boolean(),
      job: fc.constantFrom("plain" as const, "plain" as const, "output" as const, "fault" as const),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("failed" as const),
      retryable: fc.oneof({ weight: 5, arbitrary: fc.constant(true) }, fc.constant(false)),
      retryAfter: fc.constantFrom(null, 0, 1, 40),
    }),
  },
  { weight: 7, arbitrary: fc.record({ kind: fc.constant("timer" as const), seconds }) },
  {
    weight: 7,
    arbitrary: fc.record({
      kind: fc.constant("signal" as const),
      name: names,
      seconds: fc.oneof(fc.constant(null), seconds),
      byDefault: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("child" as const) }) },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constantFrom("skip" as const, "joined" as const, "preview" as const) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("started" as const),
      alone: fc.boolean(),
      otherDied: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("slot" as const) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom("lost" as const, "returned" as const) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("aborted" as const) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("submitted" as const),
      polls: fc.boolean(),
      ttl: fc.constantFrom(null, null, 200),
    }),
  },
)

const answers = (from: "live" | "ever" | "forged") =>
  fc.record({
    do: fc.constant("answer" as const),
    from: fc.constant(from),
    pick: fc.nat({ max: 99 }),
    result: results,
  })

const only = (what: Deed) => fc.constant({ do: what })

export const actions: fc.Arbitrary<Action> = fc.oneof(
  { weight: 40, arbitrary: answers("live") },
  { weight: 8, arbitrary: answers("ever") },
  { weight: 3, arbitrary: answers("forged") },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("signal" as const), name: names }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("grant" as const), pick: fc.nat({ max: 99 }) }),
  },
  {
    weight: 14,
    arbitrary: fc.record({
      do: fc.constant("news" as const),
      of: fc.constantFrom("current" as const, "current" as const, "ever" as const),
      pick: fc.nat({ max: 99 }),
      news: fc.constantFrom<News>(...allNews),
      byPoll: fc.boolean(),
      token: fc.constantFrom(undefined, undefined, "current" as const, "stale" as const),
      maxErrors: fc.constantFrom(null, 0, 1),
    }),
  },
  { weight: 14, arbitrary: fc.record({ do: fc.constant("pass" as const), seconds, wakes: fc.boolean() }) },
  { weight: 6, arbitrary: only("crash") },
  { weight: 2, arbitrary: only("hand_over") },
  { weight: 2, arbitrary: only("cancel") },
  { weight: 6, arbitrary: only("retry") },
  { weight: 1, arbitrary: only("delete") },
  { weight: 1, arbitrary: only("fail_job") },
  { weight: 2, arbitrary: only("settle") },
  { weight: 4, arbitrary: only("pause") },
  { weight: 5, arbitrary: only("resume") },
  { weight: 1, arbitrary: only("describe") },
  { weight: 2, arbitrary: only("reschedule") },
)
