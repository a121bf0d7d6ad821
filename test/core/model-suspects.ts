import type { ModelNode, ModelSuspect } from "./model-node.ts"

/** Which node is to blame for the death of its process, as in docs/operations/reliability.md. */

export function start(node: ModelNode, at: number, how: { alone: boolean; otherDiedAt: number }): void {
  node.state = "RUNNING"
  node.startKnown = true
  node.startedAt = at
  node.alone = how.alone
  node.contested = node.suspect !== null && how.otherDiedAt >= node.suspect.begunAt
}

/** It is not alone any more. */
export function join(node: ModelNode): boolean {
  if (!node.startKnown || !node.alone) return false
  node.alone = false
  return true
}

/** What is held against a node whose process died. Only a death alone is a death that counts. */
export function suspectAfterDeath(node: ModelNode): ModelSuspect {
  const before = node.suspect ?? { isolated: false, deaths: 0, streak: 0, begunAt: 0 }
  if (!node.startKnown) return before
  if (!node.alone) return { ...before, isolated: true }
  const streak = node.contested ? 1 : before.streak + 1
  return { isolated: true, deaths: before.deaths + 1, streak, begunAt: node.startedAt }
}

export function isBlamed(node: ModelNode, lossLimit: number): boolean {
  if (!node.startKnown || !node.alone) return false
  const { deaths, streak } = suspectAfterDeath(node)
  return streak >= lossLimit || deaths >= 3 * lossLimit
}
