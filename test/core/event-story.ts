/** Follows a list of events as a reader would: every step legal, every step from where the last one led. */

import { type JobStatus, jobMayBecome, type NodeStatus, nodeMayBecome } from "../../src/core/states.ts"
import type { JobEvent } from "../../src/core/view/events.ts"
import { mustHold } from "./invariants.ts"

export interface Story {
  readonly job: JobStatus | null
  readonly nodes: ReadonlyMap<string, NodeStatus>
}

export function follow(events: readonly JobEvent[], nodeIds: readonly string[]): Story {
  let job: JobStatus | null = null
  const nodes = new Map<string, NodeStatus>(nodeIds.map(id => [id, "PENDING"]))
  const keys = new Set<string>()
  const since = new Map<string, number>()
  for (const event of events) {
    mustHold(!keys.has(event.idempotency_key), `the key ${event.idempotency_key} is there twice`)
    keys.add(event.idempotency_key)
    if (event.to === undefined) continue
    const step = `${event.type} ${event.from} → ${event.to}`
    if (event.type.startsWith("job.")) {
      mustHold(event.from === job, `${step}, but the job was ${job}`)
      const to = event.to as JobStatus
      mustHold(job === null ? to === "PENDING" : jobMayBecome(job, to), `${step} is not in the table`)
      job = to
    } else if (event.item === undefined) {
      const was = nodes.get(event.node ?? "")
      mustHold(was !== undefined && event.from === was, `${step}, but ${event.node} was ${was}`)
      mustHold(nodeMayBecome(was, event.to as NodeStatus), `${step} is not in the table`)
      const before = since.get(event.node!) ?? 0
      mustHold(
        event.at >= before,
        `${step} of ${event.node} at ${event.at}, before its last state at ${before}`,
      )
      since.set(event.node!, event.at)
      nodes.set(event.node!, event.to as NodeStatus)
    }
  }
  return { job, nodes }
}
