import type { Json } from "../../core/json.ts"
import { attemptName, type Broker, type Call, type CallAnswer, type CallOptions, type Task } from "../port.ts"

interface Waiting {
  readonly task: Task
  readonly answered: (outcome: CallAnswer) => void
  readonly onPreview: CallOptions["onPreview"]
}

/**
 * Handlers that workers run for a job outside of its nodes. Each call is a task with a unique name, which is
 * no node's attempt: the answer that a worker remembers of an earlier call is never taken for this one's. A
 * node waits for a worker as long as necessary; a caller has a fallback, and receives null instead of
 * waiting.
 */
export class Calls {
  readonly #waiting = new Map<string, Waiting>()
  readonly #broker: Pick<Broker, "dispatch" | "cancel">
  /** Unique across all engines. */
  #called = Date.now() * 1000

  constructor(broker: Pick<Broker, "dispatch" | "cancel">) {
    this.#broker = broker
  }

  make(call: Call, { signal, onPreview }: CallOptions): Promise<CallAnswer> {
    const task = callTask(call, ++this.#called)
    const name = attemptName(task)
    return new Promise(resolve => {
      const giveUp = () => this.#giveUp(name)
      const answered = (outcome: CallAnswer) => {
        // The signal may outlive a million calls.
        signal.removeEventListener("abort", giveUp)
        resolve(outcome)
      }
      this.#waiting.set(name, { task, answered, onPreview })
      signal.addEventListener("abort", giveUp)
      this.#broker.dispatch(task)
    })
  }

  /** Returns false if the name is not that of a call, or its caller no longer waits. */
  answer(name: string, outcome: CallAnswer): boolean {
    const call = this.#waiting.get(name)
    if (call === undefined) return false
    this.#waiting.delete(name)
    call.answered(outcome)
    return true
  }

  /** Returns false if the name is not that of a call. */
  preview(name: string, data: Json): boolean {
    const call = this.#waiting.get(name)
    call?.onPreview?.(data)
    return call !== undefined
  }

  giveUp(isHopeless: (handler: string) => boolean): void {
    for (const [name, { task }] of [...this.#waiting]) if (isHopeless(task.handler)) this.#giveUp(name)
  }

  #giveUp(name: string): void {
    const call = this.#waiting.get(name)
    if (call === undefined) return
    this.#broker.cancel(call.task)
    this.answer(name, null)
  }
}

function callTask(call: Call, number: number): Task {
  const none = { late: [], input: null, parents: () => ({}), traceparent: null, timeoutSeconds: null }
  const place = {
    node: 0,
    attempt: -number,
    shownAttempt: 1,
    workflowVersion: 0,
    priority: 0,
    announce: false,
  }
  return { ...call, ...none, ...place }
}
