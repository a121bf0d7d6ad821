import type { Report } from "./wire.ts"

type Finished = Extract<Report, { kind: "finished" }>

/**
 * The outcomes of tasks that a worker has finished, for a task that arrives again. A duplicate arrives within
 * the time in which an engine detects that Redis lost the task; later it would be run once more. The limits
 * bound memory and need no tuning.
 */
export class Remembered {
  /** Newest last. */
  readonly #byName = new Map<string, Finished>()

  get(name: string): Finished | undefined {
    return this.#byName.get(name)
  }

  add(name: string, report: Finished): void {
    const { outcome } = report
    if (outcome.type === "completed" && outcome.text.length > LONGEST) return
    this.#byName.set(name, report)
    if (this.#byName.size > MOST) this.#byName.delete(this.#byName.keys().next().value!)
  }
}

const MOST = 1000
const LONGEST = 64 * 1024
