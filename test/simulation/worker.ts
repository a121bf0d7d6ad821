/** A broker that runs nothing: attempts take virtual time and end as the seed says, and every start is judged. */
import type {
  Broker,
  Outcome,
  RunningTask,
  Task,
  TaskEvents,
  TaskName,
  TaskWaits,
} from "../../src/broker/port.ts"
import type { Waiting } from "../../src/core/facts.ts"
import type { Json } from "../../src/core/json.ts"
import type { Clock } from "../../src/engine/clock.ts"
import type { Random } from "../crash/random.ts"

export interface SimulatedWorkerParts {
  readonly clock: Clock
  readonly random: Random
  readonly events: TaskEvents
  readonly isDead: () => boolean
  readonly starts: (task: Task) => void
}

export const SIGNALS = ["go", "come"] as const

export class SimulatedWorker implements Broker {
  readonly #parts: SimulatedWorkerParts
  readonly #running = new Map<string, () => void>()

  constructor(parts: SimulatedWorkerParts) {
    this.#parts = parts
  }

  runs(): boolean {
    return true
  }

  aborted(): Iterable<string> {
    return []
  }

  isPure(handler: string): boolean {
    return handler === "compute"
  }

  dispatch(task: Task): void {
    const { clock, random, events, isDead, starts } = this.#parts
    const key = keyOf(task)
    if (this.#running.has(key)) return
    const begin = () => {
      if (isDead() || !this.#running.has(key)) return
      starts(task)
      const outcome = outcomeOf(task, random, clock.now())
      const end = () => {
        if (isDead() || !this.#running.delete(key)) return
        events.finished(task, outcome, { worker: "simulated", heldMs: 0, ranMs: 0 })
      }
      // As a local worker does, within the same turn of the event loop; unless it had no slot for it.
      if (this.isPure(task.handler) && random.chance(0.7)) queueMicrotask(end)
      else this.#running.set(key, clock.after(random.between(1, 300), end))
    }
    this.#running.set(key, () => {})
    if (task.announce) events.started(task, "simulated").then(begin, () => this.#running.delete(key))
    else begin()
  }

  has(task: TaskName): boolean {
    return this.#running.has(keyOf(task))
  }

  withdraw(): boolean {
    return false
  }

  cancel(task: TaskName): void {
    const key = keyOf(task)
    this.#running.get(key)?.()
    this.#running.delete(key)
  }

  isRunningHere(task: TaskName): boolean {
    return this.#running.has(keyOf(task))
  }

  runningTask(task: TaskName): RunningTask | null {
    return this.#running.has(keyOf(task)) ? { worker: "simulated", ranMs: 0 } : null
  }

  waits(): TaskWaits {
    return { of: () => ({ reason: "busy" }) }
  }

  async drain(): Promise<void> {
    for (const cancel of this.#running.values()) cancel()
    this.#running.clear()
  }
}

function keyOf(task: TaskName): string {
  return `${task.jobId}/${task.node}/${task.item}/${task.attempt}`
}

/** For its time, or for a signal that comes now and then. */
function waitingFor(random: Random, now: number, output: Json): Waiting {
  const until = now + random.between(10, random.pick([250, 5000]))
  if (random.chance(0.5)) return { kind: "timer", until, output }
  return { kind: "signal", name: random.pick(SIGNALS), until, default: output }
}

function outcomeOf(task: Task, random: Random, now: number): Outcome {
  const output = { by: task.attempt }
  if (task.handler.startsWith("run:"))
    return { type: "child", workflow: task.handler.slice("run:".length), input: null }
  if (random.chance(0.15))
    return { type: "failed", fault: { code: "E400", message: "by chance", retryable: random.chance(0.9) } }
  if (random.chance(0.25)) return { type: "waiting", waiting: waitingFor(random, now, output) }
  return { type: "completed", output, text: JSON.stringify(output) }
}
