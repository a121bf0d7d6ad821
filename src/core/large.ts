import type { Json } from "./json.ts"
import { LargeOutput, type Output } from "./state.ts"

/** An output as it is shown: one that is not in memory is shown by its size and the fact that has it. */
export function shownOutput(output: Output): Json {
  return output instanceof LargeOutput ? { $large: { bytes: output.bytes, seq: output.seq } } : output
}
