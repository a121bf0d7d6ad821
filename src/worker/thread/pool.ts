/**
 * Threads for CPU-bound handlers. One attempt per thread; a thread that has finished an attempt waits for the
 * next, one that was killed or has died is replaced when needed. The broker limits how many run at once (the
 * limit "threads").
 */
import type { Task } from "../../broker/port.ts"
import type { Json } from "../../core/json.ts"
import { activeTraceparent } from "../../trace.ts"
import type { Work } from "../attempt.ts"
import type { Reports } from "../context.ts"
import type { Redactor } from "../redact.ts"
import { Thread } from "./thread.ts"

export interface ThreadRun {
  readonly task: Task
  readonly module: string
  readonly config: Json
  readonly redactor: Redactor | null
  readonly reports: Reports
  readonly maxOutputBytes: number
  readonly maxPreviewBytes: number
}

export class ThreadPool {
  readonly #memoryMb: number
  readonly #idle: Thread[] = []
  readonly #all = new Set<Thread>()

  constructor(options: { readonly memoryMb: number }) {
    this.#memoryMb = options.memoryMb
  }

  run({ task, redactor, reports, ...run }: ThreadRun): Work {
    const { jobId, nodeId, item, attempt, shownAttempt, handler, input, provider, operation } = task
    // A thread cannot request them while its handler runs, so they are sent with the task.
    const parents = task.parents()
    const secrets = redactor?.secrets ?? []
    const traceparent = activeTraceparent()
    const which = { jobId, nodeId, item, attempt, shownAttempt, handler, provider, operation }
    const call = { ...which, input, parents, secrets, traceparent }
    const thread = this.#idle.pop() ?? this.#create()
    const begun = () => work.onBegun?.()
    const outcome = thread.run({ type: "run", ...run, ...call }, { reports, clean: redactor?.clean, begun })
    outcome.then(() => {
      if (thread.isAlive) this.#idle.push(thread)
    })
    const work: Work = {
      outcome,
      abort: reason => thread.abort(reason),
      used: () => thread.used,
      kill: () => thread.kill(),
      isLoading: true,
    }
    return work
  }

  async close(): Promise<void> {
    await Promise.all([...this.#all].map(thread => thread.kill()))
  }

  #create(): Thread {
    const thread = new Thread({ memoryMb: this.#memoryMb, onExit: () => this.#remove(thread) })
    this.#all.add(thread)
    return thread
  }

  #remove(thread: Thread): void {
    this.#all.delete(thread)
    const at = this.#idle.indexOf(thread)
    if (at >= 0) this.#idle.splice(at, 1)
  }
}
