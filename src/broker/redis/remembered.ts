import type { Report } from "./wire.ts"

type Finished = Extract<Report, { kind: "finished" }>

/**
 * What a worker knows of tasks it has done, for one that comes again. It comes within the time in which Redis is found to
 * have forgotten it, if at all, and is otherwise run once more: the figures bound memory, and there is nothing to tune.
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
