import type { Command } from "./commands.ts"
import type { Waiting } from "./facts.ts"
import type { Json } from "./json.ts"
import { type JobState, skippedOutput } from "./state.ts"
import { outputWhenDue } from "./timers.ts"

/**
 * A job's `output` template is rendered before its last node is done, so that the job's end is one fact. Which node
 * would this command complete, and with what? null: none.
 */
export function completionOf(
  state: JobState,
  command: Command,
  now: number,
): { readonly node: number; readonly output: Json } | null {
  switch (command.type) {
    case "completed":
      return command
    case "skip":
      return { node: command.node, output: skippedOutput }
    case "signal":
      return waitingNode(state, waiting =>
        waiting.kind === "signal" && waiting.name === command.name ? command.data : undefined,
      )
    case "wake":
      return waitingNode(state, waiting =>
        waiting.until !== undefined && waiting.until <= now ? outputWhenDue(waiting) : undefined,
      )
    case "waiting": {
      const kept =
        command.waiting.kind === "signal" ? state.signals.get(command.waiting.name)?.[0] : undefined
      return kept === undefined ? null : { node: command.node, output: kept }
    }
    default:
      return null
  }
}

function waitingNode(
  state: JobState,
  outputOf: (waiting: Waiting) => Json | undefined,
): { readonly node: number; readonly output: Json } | null {
  for (const [node, waiting] of state.waiting) {
    const output = outputOf(waiting)
    if (output !== undefined) return { node, output }
  }
  return null
}
