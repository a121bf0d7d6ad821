import type { Effects } from "../effects.ts"
import type { Fault } from "../faults.ts"
import { FAILED, type JobState } from "../state.ts"
import { end } from "./apply.ts"

/** J9: the job fails at once; downstream nodes fail with the cause named, all others are cancelled. */
export function failFast(
  state: JobState,
  fact: { readonly node: number; readonly fault: Fault; readonly item?: number },
  at: number,
  effects: Effects,
): void {
  const { node: cause, fault, item } = fact
  state.nodeStatus[cause] = FAILED
  state.endedAt[cause] = at
  state.fault = item === undefined ? { fault, node: cause } : { fault, node: cause, item }
  const { starts, items } = state.graph.successors
  const stack = [fact.node]
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    for (let i = starts[node]!; i < starts[node + 1]!; i++) {
      const successor = items[i]!
      if (state.nodeStatus[successor] === FAILED) continue
      state.nodeStatus[successor] = FAILED
      state.endedAt[successor] = at
      state.faults.set(successor, { fault: fact.fault, cause: fact.node })
      stack.push(successor)
    }
  }
  end(state, "FAILED", at, effects)
}
