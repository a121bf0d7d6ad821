import { type JobState, type TaskRef, taskKey } from "../../core/state.ts"
import type { LiveJob } from "./live-job.ts"

/**
 * When nodes of this engine's jobs last died alone; answers whether another node did so since a given one began. After a
 * restart it is learned from the jobs that are folded: a node that died after another stands behind it in the queue of
 * its process, so its job is in flight as long as the other's is.
 */
export class DeathsAlone {
  /** The latest two deaths, of different nodes. */
  #latest: Death = none
  #second: Death = none

  learn({ id, state }: LiveJob): void {
    this.#learn(state, node => taskName(id, { node }))
    for (const [node, list] of state.lists) this.#learn(list.state, item => taskName(id, { node, item }))
  }

  #learn({ suspects }: JobState, nameOf: (position: number) => string): void {
    for (const [position, { diedAt }] of suspects) if (diedAt > 0) this.note(nameOf(position), diedAt)
  }

  note(name: string, at: number): void {
    if (name === this.#latest.name) this.#latest = { name, at: Math.max(at, this.#latest.at) }
    else if (at >= this.#latest.at) {
      this.#second = this.#latest
      this.#latest = { name, at }
    } else if (at > this.#second.at) this.#second = { name, at }
  }

  latestOther({ id }: LiveJob, of: TaskRef): number {
    return this.#latest.name === taskName(id, of) ? this.#second.at : this.#latest.at
  }
}

interface Death {
  readonly name: string
  readonly at: number
}

const none: Death = { name: "", at: Number.NEGATIVE_INFINITY }

function taskName(jobId: string, of: TaskRef): string {
  return `${jobId}/${taskKey(of)}`
}
