import type { Command } from "./commands.ts"
import { isOfItem } from "./decide/items.ts"
import type { Waiting } from "./facts.ts"
import type { Json } from "./json.ts"
import { isDone, type JobState, ListOutput, type Output, operationOf, skippedOutput } from "./state.ts"
import { outputWhenDue } from "./timers.ts"

/**
 * A job's `output` template is rendered before its last node is done, so that the job's end is one fact. Returns the node
 * that this command would complete, and its output; null: none.
 */
export function completionOf(state: JobState, command: Command, now: number): Completion | null {
  if (isOfItem(command)) return itemCompletion(state, command.node, { ...command, node: command.item }, now)
  switch (command.type) {
    case "completed":
      return command
    case "external":
      return command.result.type === "completed" &&
        operationOf(state, command.node)?.external_id === command.externalId
        ? { node: command.node, output: command.result.output }
        : null
    case "expand":
      return command.items.length === 0 ? { node: command.node, output: [] } : null
    case "skip":
      return { node: command.node, output: skippedOutput }
    case "signal":
      return (
        waitingNode(state, waiting =>
          waiting.kind === "signal" && waiting.name === command.name ? command.data : undefined,
        ) ?? listCompletion(state, command, now)
      )
    case "wake":
      return (
        waitingNode(state, waiting =>
          waiting.until !== undefined && waiting.until <= now ? outputWhenDue(waiting) : undefined,
        ) ?? listCompletion(state, command, now)
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

interface Completion {
  readonly node: number
  readonly output: Output
}

/** The last item of a list completes its node. */
function itemCompletion(state: JobState, node: number, command: Command, now: number): Completion | null {
  const list = state.lists.get(node)?.state
  if (list?.unfinished !== 1) return null
  const { item: _, ...inner } = command as Command & { readonly item?: number }
  const last = completionOf(list, inner, now)
  if (last === null) return null
  return { node, output: new ListOutput(list.outputs.with(last.node, last.output)) }
}

function listCompletion(state: JobState, command: Command, now: number): Completion | null {
  for (const node of state.lists.keys()) {
    const last = isDone(state, node) ? null : itemCompletion(state, node, command, now)
    if (last !== null) return last
  }
  return null
}

function waitingNode(state: JobState, outputOf: (waiting: Waiting) => Json | undefined): Completion | null {
  for (const [node, waiting] of state.waiting) {
    const output = outputOf(waiting)
    if (output !== undefined) return { node, output }
  }
  return null
}
