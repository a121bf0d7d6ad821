/** Requests of attempts to the owner of their job. A response may be lost, so a request is resent until it is answered. */
import type { ArtifactAnswer, ArtifactQuestion } from "../../core/artifacts.ts"
import { parseAttemptName, type TaskEvents } from "../port.ts"
import type { AnsweredQuestion, Report, Sender } from "./wire.ts"

type Asked = Extract<Report, { kind: "asked" }>

interface Open {
  readonly name: string
  readonly report: Asked
  readonly resolve: (answer: ArtifactAnswer) => void
  readonly reject: (error: Error) => void
}

/** In a worker. */
export class ArtifactRequests {
  readonly #send: (name: string, report: Asked) => void
  readonly #open = new Map<number, Open>()
  #asked = 0

  constructor(send: (name: string, report: Asked) => void) {
    this.#send = send
  }

  /** `name`: of the task. Rejects when the task ends here. */
  ask(name: string, question: ArtifactQuestion): Promise<ArtifactAnswer> {
    const id = ++this.#asked
    const report: Asked = { kind: "asked", id, question }
    return new Promise((resolve, reject) => {
      this.#open.set(id, { name, report, resolve, reject })
      this.#send(name, report)
    })
  }

  /** `own`: the id of this worker; answers to others are ignored. */
  answered({ worker, id, answer }: AnsweredQuestion, own: string): void {
    if (worker !== own) return
    const open = this.#open.get(id)
    this.#open.delete(id)
    if (answer === null) open?.reject(over())
    else open?.resolve(answer)
  }

  sendAgain(): void {
    for (const { name, report } of this.#open.values()) this.#send(name, report)
  }

  /** The worker no longer holds the task. */
  drop(name: string): void {
    for (const [id, open] of this.#open)
      if (open.name === name) {
        this.#open.delete(id)
        open.reject(over())
      }
  }
}

const over = () => new Error("The attempt has ended and can no longer use artifacts.")

/** In an engine. null: no response now; the worker resends the request. */
export async function answerRequest(
  { id, question }: Asked,
  { worker, name }: Sender,
  events: TaskEvents,
): Promise<AnsweredQuestion | null> {
  try {
    return { worker, id, answer: (await events.asked?.(parseAttemptName(name), question)) ?? null }
  } catch {
    return null
  }
}
