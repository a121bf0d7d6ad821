/** Every way in which a provider misbehaves, and what must come of it. Played by matrix.test.ts on each path and store. */
import type { HttpProviderDefinition } from "../../src/provider/http-spec.ts"
import type { FakeScript, FakeStep, FakeWebhook } from "../../src/testing/fake-provider.ts"

const soon = [0.05, 0.1]
const never = [3600]

/** How the end of an operation can be heard of. */
export const paths = {
  /** Nobody looks: only webhooks tell. */
  webhook: { looks: false, webhooks: true, poll_seconds: never },
  /** Genuine webhooks get lost on their way, all of them. */
  poll: { looks: true, webhooks: false, poll_seconds: soon },
  both: { looks: true, webhooks: true, poll_seconds: soon },
  /** Webhooks are not believed: the first makes us look, and after a look that brought no end there are more. */
  hint: { looks: false, webhooks: true, poll_seconds: [...never, ...soon] },
} as const

export type Path = keyof typeof paths

export interface Scenario {
  readonly what: string
  /** Of the node's first operation; `next`: of the one after it, under the next key. */
  readonly script: FakeScript
  readonly next?: FakeScript
  /** What differs from the fake provider's own definition. */
  readonly over?: Partial<HttpProviderDefinition>
  /** Default COMPLETED, on every path. */
  readonly ends?: Partial<Record<Path, Ending>> | Ending
  /** Operations at the provider, each under a key of its own; default 1. */
  readonly operations?: number
  /** Submissions of the first of them; default 1. Where requests time out a busy machine may add some. */
  readonly submissions?: number
  /** Webhooks that are refused, with this code. */
  readonly refused?: { readonly count: number; readonly code: "E661" | "E662" }
  /** What becomes of the first genuine webhook; by path, since a poll may have been faster. */
  readonly verdict?: Partial<Record<Path, "delivered" | "late">>
  /** What was shown before the end. */
  readonly preview?: unknown
}

export type Ending = "COMPLETED" | "FAILED" | "EXPIRED"

export const made = { made: "film" }
const lie = { status: "done", output: "a lie" } as const

const wait = (ms: number): FakeStep => ({ do: "wait", ms })
const complete: FakeStep = { do: "complete", output: made }
const webhook: FakeStep = { do: "webhook" }
const answer: FakeStep = { do: "answer" }
const well: FakeScript = { steps: [wait(20), complete, webhook] }
/** Somebody has heard how it stands. */
const looked: FakeStep = { do: "await_polls", count: 1 }
const impatient = { timeout_seconds: 1 }

export const scenarios: readonly Scenario[] = [
  { what: "nothing is wrong", script: well },

  // Webhooks.
  {
    what: "the webhook is lost",
    script: { steps: [wait(20), complete] },
    ends: { webhook: "EXPIRED", hint: "EXPIRED" },
  },
  {
    what: "the webhook is late",
    script: { steps: [complete, looked, wait(200), webhook] },
    verdict: { webhook: "delivered", both: "late" },
  },
  {
    what: "the webhook comes before the submission is answered",
    script: { steps: [complete, webhook, wait(20), answer] },
    verdict: { webhook: "delivered", hint: "delivered" },
  },
  {
    what: "progress comes before the submission is answered",
    script: {
      steps: [{ do: "show", progress: 10, preview: 1 }, webhook, answer, wait(20), complete, webhook],
    },
    verdict: { webhook: "delivered", hint: "delivered" },
  },
  {
    what: "the same webhook comes three times",
    script: { steps: [complete, ...Array<FakeStep>(3).fill({ ...webhook, eventId: "the same" })] },
  },
  {
    what: "the same webhook comes three times at once",
    script: { steps: [wait(20), complete, { ...webhook, times: 3, eventId: "the same" }] },
  },
  {
    what: "three webhooks tell the same at once",
    script: { steps: [wait(20), complete, { ...webhook, times: 3 }] },
  },
  {
    what: "progress comes after the result",
    script: { steps: [complete, webhook, { ...webhook, says: { status: "running", progress: 50 } }] },
  },
  {
    what: "a preview comes after the result",
    script: { steps: [complete, webhook, { ...webhook, says: { status: "running", preview: "half" } }] },
  },
  {
    what: "a failure comes after the result",
    script: { steps: [complete, webhook, { ...webhook, says: { status: "failed", error: "or not" } }] },
  },
  {
    what: "another result comes after the result",
    script: { steps: [complete, webhook, { ...webhook, says: { output: "another" } }] },
  },
  {
    what: "a preview comes, and the result",
    script: {
      steps: [
        { do: "show", progress: 50, preview: { half: true } },
        webhook,
        looked,
        wait(50),
        complete,
        webhook,
      ],
    },
    preview: { half: true },
  },
  {
    what: "a webhook is forged",
    script: { steps: [{ ...webhook, secret: "a guess", says: lie, times: 2 }, wait(20), complete, webhook] },
    refused: { count: 2, code: "E661" },
  },
  {
    what: "a webhook is forged before the submission is answered",
    script: { steps: [{ ...webhook, secret: "a guess", says: lie }, answer, wait(20), complete, webhook] },
    refused: { count: 1, code: "E661" },
  },
  {
    what: "a webhook is replayed outside the window",
    script: { steps: [{ ...webhook, secondsAgo: 301, says: lie }, wait(20), complete, webhook] },
    refused: { count: 1, code: "E661" },
  },
  {
    what: "a webhook is dated into the future",
    script: { steps: [{ ...webhook, secondsAgo: -3600, says: lie }, wait(20), complete, webhook] },
    refused: { count: 1, code: "E661" },
  },
  {
    what: "a webhook is signed and cannot be read",
    script: { steps: [{ ...webhook, body: "{not json" }, wait(20), complete, webhook] },
    refused: { count: 1, code: "E662" },
  },

  // Submissions.
  {
    what: "the result is there before the submission is answered",
    script: { steps: [complete, wait(50), answer, webhook] },
  },
  {
    what: "the submission is answered with 429 and Retry-After",
    script: { ...well, submit: [{ status: 429, headers: { "retry-after": "1" } }] },
    over: { rate: 100 },
  },
  {
    what: "the submission is answered with 429 more often than there are tries",
    script: { ...well, submit: Array(5).fill({ status: 429, headers: { "retry-after": "0" } }) },
  },
  {
    what: "the submission is answered with 502 although it was taken, and then with 429",
    script: { ...well, submit: [{ status: 502, afterwards: true }, { status: 429 }, { status: 429 }] },
    submissions: 2,
  },
  {
    what: "the submission is answered with 500, twice",
    script: { ...well, submit: [{ status: 500 }, { status: 500 }] },
  },
  {
    what: "the submission is answered with 502 although it was taken",
    script: { ...well, submit: [{ status: 502, afterwards: true }] },
    submissions: 2,
  },
  {
    what: "the submission is not answered",
    script: { ...well, submit: [{ silence: "hang" }] },
    over: impatient,
  },
  {
    what: "the submission is not answered although it was taken",
    script: { ...well, submit: [{ silence: "hang", afterwards: true }] },
    over: impatient,
    submissions: 2,
  },
  { what: "the connection of the submission is cut", script: { ...well, submit: [{ silence: "cut" }] } },
  {
    what: "the connection of the submission is cut although it was taken, twice",
    script: { ...well, submit: Array(2).fill({ silence: "cut", afterwards: true }) },
    submissions: 3,
  },
  {
    what: "the submission is refused for good",
    script: { submit: [{ status: 400 }] },
    ends: "FAILED",
    operations: 0,
  },

  // Polls. Where nobody polls they cannot be wrong.
  {
    what: "polls are answered with 500, three times",
    script: { ...well, poll: Array(3).fill({ status: 500 }) },
  },
  {
    what: "a poll is answered with 429 and Retry-After",
    script: { ...well, poll: [{ status: 429, headers: { "retry-after": "1" } }] },
    over: { rate: 100 },
  },
  { what: "a poll is not answered", script: { ...well, poll: [{ silence: "hang" }] }, over: impatient },
  { what: "a poll's connection is cut", script: { ...well, poll: [{ silence: "cut" }] } },
  {
    what: "a poll is answered with something that is no JSON",
    script: { ...well, poll: [{ headers: { "content-type": "application/json" }, body: "<html>" }] },
  },

  // Operations.
  {
    what: "the operation fails, and the next one does not",
    script: { steps: [wait(20), { do: "fail" }, webhook] },
    next: well,
    operations: 2,
  },
  {
    what: "the operation fails permanently",
    script: { steps: [wait(20), { do: "fail", error: "out of film", retryable: false }, webhook] },
    ends: "FAILED",
  },
  {
    what: "the operation never ends",
    script: { steps: [{ do: "show", progress: 1 }, webhook] },
    ends: "EXPIRED",
  },
]

/** The script as it is played on a path: what is genuine gets lost where webhooks do, and nobody waits for looks that never come. */
export function scriptOn(path: Path, script: FakeScript): FakeScript {
  const { looks, webhooks } = paths[path]
  const isPlayed = (step: FakeStep) =>
    step.do === "await_polls" ? looks : webhooks || step.do !== "webhook" || !isGenuine(step)
  return { ...script, steps: (script.steps ?? []).filter(isPlayed) }
}

function isGenuine({ secret, secondsAgo, body }: FakeWebhook): boolean {
  return secret === undefined && secondsAgo === undefined && body === undefined
}

export function endingOf({ ends = "COMPLETED" }: Scenario, path: Path): Ending {
  return typeof ends === "string" ? ends : (ends[path] ?? "COMPLETED")
}
