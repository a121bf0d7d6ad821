/** Scripts for a fake provider, drawn at random: everything of scenarios.ts that can go wrong, several things at once. */
import type { Json } from "../../../src/core/json.ts"
import type { FakeAnswer, FakeScript, FakeStep } from "../../../src/testing/fake-provider.ts"
import { type Random, randomFrom } from "../../crash/random.ts"

export interface Drawn {
  /** One for each operation of the job, under its first key, its second … */
  readonly scripts: readonly FakeScript[]
  /** null: the last operation fails permanently. */
  readonly output: { readonly made: Json } | null
}

export interface DrawnOptions {
  readonly seed: number
  /** Webhooks of one operation, at once. */
  readonly webhooks: number
  /** Does anything go wrong? */
  readonly faults: boolean
  /** An operation takes up to so long. */
  readonly workMs: number
}

/** Every fifth job is a list of three items. 0: it is one operation. */
export function itemsOf(index: number): number {
  return index % 5 === 4 ? 3 : 0
}

/** What the provider does for a job, for each of its items: always the same for one seed and index. */
export function drawn(index: number, options: DrawnOptions): readonly Drawn[] {
  const random = randomFrom(options.seed * 1_000_003 + index)
  const items = itemsOf(index)
  if (items === 0) return [drawnOne(random, { made: index }, options)]
  return Array.from({ length: items }, (_, item) =>
    drawnOne(random, { made: `${index}/${item}` }, options, 0),
  )
}

/** `fatal`: how often it cannot be done. Never for an item: what the others come to would depend on who is first. */
function drawnOne(random: Random, output: { made: Json }, options: DrawnOptions, fatal = 0.03): Drawn {
  if (!options.faults) return { scripts: [good(random, output, options)], output }
  const failures = random.chance(0.05) ? 1 : 0
  const isFatal = random.chance(fatal)
  const scripts: FakeScript[] = Array.from({ length: failures }, () =>
    bad(random, { do: "fail", error: "try again" }, options),
  )
  const end: FakeStep = isFatal
    ? { do: "fail", error: `no film ${output.made}`, retryable: false }
    : { do: "complete", output }
  scripts.push(bad(random, end, options))
  return { scripts, output: isFatal ? null : output }
}

function good(random: Random, output: Json, { webhooks: times, workMs }: DrawnOptions): FakeScript {
  const steps: FakeStep[] = [
    { do: "wait", ms: random.between(0, workMs) },
    { do: "complete", output },
  ]
  return { steps: times === 0 ? steps : [...steps, { do: "webhook", times }] }
}

function bad(random: Random, end: FakeStep, options: DrawnOptions): FakeScript {
  return {
    submit: some(random, 0.12, submitFaults),
    poll: some(random, 0.12, pollFaults),
    steps: [...before(random), ...around(random, end, options), ...after(random)],
  }
}

const submitFaults: readonly FakeAnswer[] = [
  { status: 500 },
  { status: 502, afterwards: true },
  { status: 429, headers: { "retry-after": "0" } },
  { status: 429, headers: { "retry-after": "1" } },
  { silence: "cut" },
  { silence: "cut", afterwards: true },
  { silence: "hang" },
  { silence: "hang", afterwards: true },
]

const pollFaults: readonly FakeAnswer[] = [
  { status: 500 },
  { status: 503 },
  { status: 429, headers: { "retry-after": "0" } },
  { silence: "cut" },
  { silence: "hang" },
  { headers: { "content-type": "application/json" }, body: "<html>" },
]

/** One, two in a row, or more: each with the same chance. */
function some(random: Random, chance: number, faults: readonly FakeAnswer[]): readonly FakeAnswer[] {
  const answers: FakeAnswer[] = []
  while (answers.length < 4 && random.chance(chance)) answers.push(random.pick(faults))
  return answers
}

const lie = { says: { status: "done", output: "a lie" } } as const

/** Forged, replayed, unreadable, and partial results, all before the end. */
function before(random: Random): FakeStep[] {
  const steps: FakeStep[] = []
  if (random.chance(0.05)) steps.push({ do: "webhook", secret: "a guess", ...lie })
  if (random.chance(0.05)) steps.push({ do: "webhook", secondsAgo: 301, ...lie })
  if (random.chance(0.02)) steps.push({ do: "webhook", body: "{not json" })
  if (random.chance(0.1)) {
    steps.push({ do: "show", progress: random.between(1, 99), preview: { frames: random.between(1, 9) } })
    if (random.chance(0.7)) steps.push({ do: "webhook" })
  }
  return steps
}

/** The end, its webhooks, and the answer of the submission, which may come after both. */
function around(random: Random, end: FakeStep, { webhooks: times, workMs }: DrawnOptions): FakeStep[] {
  const answer: FakeStep = { do: "answer" }
  const pause: FakeStep = { do: "wait", ms: random.between(0, workMs) }
  const isLost = times === 0 || random.chance(0.2)
  const webhook: FakeStep[] = isLost ? [] : [{ do: "webhook", times }]
  if (random.chance(0.1)) return [end, ...webhook, answer]
  if (random.chance(0.1)) return [end, answer, ...webhook]
  const isLate = random.chance(0.15)
  return [answer, pause, end, ...(isLate ? [{ do: "wait", ms: 200 } as const] : []), ...webhook]
}

/** What comes when all is over: again, out of order, or to the contrary. */
function after(random: Random): FakeStep[] {
  const steps: FakeStep[] = []
  if (random.chance(0.08)) steps.push({ do: "webhook" })
  if (random.chance(0.04)) steps.push({ do: "webhook", says: { status: "running", progress: 5 } })
  if (random.chance(0.04)) steps.push({ do: "webhook", says: { status: "running", preview: "late" } })
  if (random.chance(0.02)) steps.push({ do: "webhook", secret: "a guess", ...lie })
  return steps
}
