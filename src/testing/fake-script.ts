/** What a fake provider does with one operation: data, so that a table of misbehaviours can be written, drawn or printed. */
import type { Json } from "../core/json.ts"

export interface FakeOperation {
  readonly id: string
  /** The idempotency key it was submitted with. */
  readonly key: string
  readonly request: Json
  status: "running" | "done" | "failed" | "canceled"
  output: Json
  error: string | null
  /** Of a failure: may a new operation succeed? */
  retryable: boolean
  progress: number | null
  preview: Json
  /** How often it was submitted: more than once is a repetition that its key gave away. */
  submissions: number
  polls: number
}

/** What a request is answered with where that is not the truth. */
export interface FakeAnswer {
  /** Default 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as it is; default: an error, as JSON. */
  readonly body?: string
  /** No answer at all: the caller's time runs out, or the connection is cut. */
  readonly silence?: "hang" | "cut"
  /** Of a submission: the work is begun all the same, only the answer is lost. */
  readonly afterwards?: boolean
}

/** A webhook; with nothing in it, one that says how the operation stands. */
export interface FakeWebhook {
  /** Said instead: what was true a while ago, or never. */
  readonly says?: Partial<Pick<FakeOperation, "status" | "output" | "error" | "progress" | "preview">>
  /** Sent, and signed, instead of a body. */
  readonly body?: string
  /** Makes a second one the same delivery. */
  readonly eventId?: string
  /** Signed with another secret: forged. */
  readonly secret?: string
  /** Signed so long ago; needs `signsTime`. */
  readonly secondsAgo?: number
  readonly url?: string
}

export type FakeStep =
  /** The submission is answered now. Without this step it is before all others. */
  | { readonly do: "answer" }
  | { readonly do: "wait"; readonly ms: number }
  /** Until `release` is called with the operation's id. */
  | { readonly do: "hold" }
  /** Until it has been looked at so many more times. */
  | { readonly do: "await_polls"; readonly count: number }
  | { readonly do: "show"; readonly progress?: number; readonly preview?: Json }
  | { readonly do: "complete"; readonly output?: Json }
  | { readonly do: "fail"; readonly error?: string; readonly retryable?: boolean }
  /** `times`: so many at once. The next step waits for the answers; a webhook that nobody takes is lost. */
  | ({ readonly do: "webhook"; readonly times?: number } & FakeWebhook)

export interface FakeScript {
  /** What the first requests are answered with, in order; those that come after them get the truth. */
  readonly submit?: readonly FakeAnswer[]
  readonly poll?: readonly FakeAnswer[]
  readonly cancel?: readonly FakeAnswer[]
  /** What happens once the operation is taken, one after the other. */
  readonly steps?: readonly FakeStep[]
}

/** A script and how far it has been played. */
export class Play {
  readonly script: FakeScript
  readonly #answered = { submit: 0, poll: 0, cancel: 0 }
  #answer: () => void = () => {}
  /** Resolves when a submission may be answered. */
  readonly answerable: Promise<void>

  constructor(script: FakeScript) {
    this.script = script
    this.answerable = new Promise(resolve => {
      this.#answer = resolve
    })
  }

  /** The next answer that is not the truth, if there is one. */
  next(route: "submit" | "poll" | "cancel"): FakeAnswer | undefined {
    return this.script[route]?.[this.#answered[route]++]
  }

  /** The steps, each when the one before it is over. */
  async perform(perform: (step: FakeStep) => unknown): Promise<void> {
    const { steps = [] } = this.script
    if (!steps.some(step => step.do === "answer")) this.#answer()
    for (const step of steps)
      if (step.do === "answer") this.#answer()
      else await perform(step)
  }
}
