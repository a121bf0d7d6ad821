import type { Json } from "./json.ts"
import type { JobState, Output } from "./state.ts"

/**
 * The output of a completed job (J3): its rendered `output` template; else the output of the node with handler
 * `output`; else a map of the exit nodes' outputs. `read` returns the value for an output that is not in memory.
 */
export function jobOutput(state: JobState, read: (output: Output, node: number) => Json): Json {
  if (state.output !== undefined) return state.output
  const { nodes, successors } = state.graph
  let outputNode = nodes.length - 1
  while (outputNode >= 0 && nodes[outputNode]!.handler !== "output") outputNode--
  if (outputNode >= 0) return read(state.outputs[outputNode] ?? null, outputNode)
  const outputs: { [id: string]: Json } = {}
  for (let node = 0; node < nodes.length; node++) {
    if (successors.starts[node] !== successors.starts[node + 1]) continue
    outputs[nodes[node]!.id] = read(state.outputs[node] ?? null, node)
  }
  return outputs
}
