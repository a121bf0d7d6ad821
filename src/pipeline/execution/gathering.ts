/** Messages that wait at an adapter until there are enough of them to be processed as one. */
import { UmbraError } from "../../errors.ts"
import type { Gathering } from "../adapter.ts"
import type { PreparedAdapter } from "../registry/prepared-adapter.ts"
import type { DeliveryRun } from "./delivery-run.ts"

interface Group {
  readonly runs: DeliveryRun[]
  readonly count: number
  readonly cancelTimer: () => void
}

export class Gatherers {
  readonly #clock: { after(ms: number, fire: () => void): () => void }
  readonly #max: number
  /** By adapter and key; the oldest first. */
  readonly #groups = new Map<string, Group>()
  #waiting = 0
  #isStopped = false

  constructor(clock: { after(ms: number, fire: () => void): () => void }, max: number) {
    this.#clock = clock
    this.#max = max
  }

  /** The message waits, or continues with its group. */
  add(run: DeliveryRun, prepared: PreparedAdapter): void {
    if (this.#isStopped) {
      run.hold()
      return
    }
    let terms: Gathering
    try {
      terms = readTerms(prepared, run)
    } catch (error) {
      run.fail(prepared, error)
      return
    }
    const name = `${run.adapter}/${terms.key ?? ""}`
    const group = this.#groups.get(name) ?? this.#open(name, terms)
    group.runs.push(run)
    this.#waiting += 1
    run.chain.events.waits(run)
    if (group.runs.length >= group.count) this.#complete(name)
    else if (this.#waiting > this.#max) this.#complete(this.#groups.keys().next().value!)
  }

  stop(): void {
    this.#isStopped = true
    for (const { cancelTimer } of this.#groups.values()) cancelTimer()
    this.#groups.clear()
    this.#waiting = 0
  }

  #open(name: string, terms: Gathering): Group {
    const cancelTimer = this.#clock.after(terms.seconds * 1000, () => this.#complete(name))
    const group = { runs: [], count: terms.count, cancelTimer }
    this.#groups.set(name, group)
    return group
  }

  #complete(name: string): void {
    const group = this.#groups.get(name)
    if (group === undefined) return
    this.#groups.delete(name)
    group.cancelTimer()
    this.#waiting -= group.runs.length
    const [first, ...others] = group.runs
    first!.members.push(...others)
    first!.chain.events.resumed(first!)
    first!.advanceGathered()
  }
}

function readTerms(prepared: PreparedAdapter, { body }: DeliveryRun): Gathering {
  const config = prepared.configFor(body)
  if (!(config instanceof Promise)) return prepared.adapter.gather!(config)
  throw new UmbraError(
    "E720",
    `The config schema of adapter "${prepared.type}" is asynchronous, and an adapter that gathers needs its config synchronously.`,
  )
}
