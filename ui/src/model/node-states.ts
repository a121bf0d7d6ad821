/** States of nodes in lower case, in the order of their codes in a folded state (`JobState.nodeStatus`). */
import type { NodeStatus } from "../../../src/core/index.ts"

export const nodeStates = [
  "pending",
  "queued",
  "running",
  "waiting",
  "completed",
  "skipped",
  "failed",
  "cancelled",
] as const satisfies readonly Lowercase<NodeStatus>[]
