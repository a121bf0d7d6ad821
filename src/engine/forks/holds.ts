import type { Submit } from "../../core/commands.ts"
import { heldBy } from "../../core/fork.ts"
import type { Plan } from "../../definition/plan.ts"
import type { Holds } from "../commit/batch.ts"

/** The rows that keep what a fork refers to in the store. */
export function holdsOfFork(id: string, partition: number, command: Submit, usedAt: number): Holds {
  const { fork, definition } = command
  const held = heldBy(fork!, definition?.hash).map(thing => ({ partition, by: id, held: thing }))
  if (definition === undefined) return { held, definitions: [] }
  const { hash, text, rules } = definition
  return { held, definitions: [{ partition, jobId: id, hash, definition: text, rules, usedAt }] }
}

/** Is it a fork that may have nothing to run? It ends with its submission, and needs no place in memory. */
export function isWholeFork(plan: Plan, { fork }: Submit): boolean {
  return fork !== undefined && fork.nodes.length === plan.nodes.length
}
