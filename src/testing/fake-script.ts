/** The script of one operation of a fake provider, as data: a table of faults can be written, generated or printed. */
import type { Json } from "../core/json.ts"

export interface FakeOperation {
  readonly id: string
  /** The idempotency key it was submitted with. */
  readonly key: string
  readonly request: Json
  status: "running" | "done" | "failed" | "canceled"
  output: Json
  error: string | null
  /** For a failure: may a new operation succeed? */
  retryable: boolean
  progress: number | null
  preview: Json
  /** How often it was submitted: more than once means a repetition with the same key. */
  submissions: number
  polls: number
}

/** A false answer to a request. */
export interface FakeAnswer {
  /** Default 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent unchanged; default: an error, as JSON. */
  readonly body?: string
  /** No answer at all: the caller's timeout passes, or the connection is cut. */
  readonly silence?: "hang" | "cut"
  /** For a submission: the work starts anyway, only the answer is lost. */
  readonly afterwards?: boolean
}

/** A webhook; by default one with the state of the operation. */
export interface FakeWebhook {
  /** Sent instead of the current state: an outdated or wrong state. */
  readonly says?: Partial<Pick<FakeOperation, "status" | "output" | "error" | "progress" | "preview">>
  /** Sent, and signed, instead of a body. */
  readonly body?: string
  /** Makes a second webhook the same delivery. */
  readonly eventId?: string
  /** Signed with another secret: a forgery. */
  readonly secret?: string
  /** Signed this long ago; needs `signsTime`. */
  readonly secondsAgo?: number
  readonly url?: string
}

export type FakeStep =
  /** The submission is answered now. Without this step it is answered before all others. */
  | { readonly do: "answer" }
  | { readonly do: "wait"; readonly ms: number }
  /** Waits until `release` is called with the operation's id. */
  | { readonly do: "hold" }
  /** Waits until it has been polled this many more times. */
  | { readonly do: "await_polls"; readonly count: number }
  | { readonly do: "show"; readonly progress?: number; readonly preview?: Json }
  | { readonly do: "complete"; readonly output?: Json }
  | { readonly do: "fail"; readonly error?: string; readonly retryable?: boolean }
  /** `times`: this many at once. The next step waits for the answers; a webhook that is not received is lost. */
  | ({ readonly do: "webhook"; readonly times?: number } & FakeWebhook)

export interface FakeScript {
  /** Answers to the first requests, in order; later requests get the true state. */
  readonly submit?: readonly FakeAnswer[]
  readonly poll?: readonly FakeAnswer[]
  readonly cancel?: readonly FakeAnswer[]
  /** Steps after the operation was accepted, one after the other. */
  readonly steps?: readonly FakeStep[]
}

/** A script and its current position. */
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

  /** The next false answer, if there is one. */
  next(route: "submit" | "poll" | "cancel"): FakeAnswer | undefined {
    return this.script[route]?.[this.#answered[route]++]
  }

  /** The steps, each after the previous one has ended. */
  async perform(perform: (step: FakeStep) => unknown): Promise<void> {
    const { steps = [] } = this.script
    if (!steps.some(step => step.do === "answer")) this.#answer()
    for (const step of steps)
      if (step.do === "answer") this.#answer()
      else await perform(step)
  }
}
