import type { TaskWait } from "../../core/view/view.ts"
import type { TaskWaits } from "../port.ts"
import { nameOf } from "../task-name.ts"
import type { OutstandingTasks } from "./outstanding.ts"
import type { Roster } from "./roster.ts"

interface Fleet {
  /** Does Redis answer? */
  readonly isUp: boolean
  readonly roster: Pick<Roster, "serves" | "lastSeen">
}

/** Why tasks that were sent to remote workers have not begun. */
export function remoteWaits(tasks: Pick<OutstandingTasks, "get" | "notBegun">, fleet: Fleet): TaskWaits {
  /** By handler: the position of each task that has not begun. */
  const places = new Map<string, Map<string, number>>()
  return {
    of: (task, handler) => {
      if (!fleet.isUp || !fleet.roster.serves(handler)) return noWorker(handler, fleet)
      const name = nameOf(task)
      const cause = tasks.get(name)?.refused ?? null
      if (cause !== null) return { reason: "refused", cause }
      const ofHandler =
        places.get(handler) ?? new Map(tasks.notBegun(handler).map((waiting, at) => [waiting.name, at + 1]))
      places.set(handler, ofHandler)
      const position = ofHandler.get(name)
      return { reason: "busy", queued: ofHandler.size, ...(position === undefined ? {} : { position }) }
    },
  }
}

/** No live worker has the handler. */
export function noWorker(handler: string, { isUp, roster }: Fleet): TaskWait {
  const last = roster.lastSeen(handler)
  const away = isUp ? {} : { cause: "Redis cannot be reached" }
  return { reason: "none", last_worker: last?.worker ?? null, last_seen_at: last?.at ?? null, ...away }
}
