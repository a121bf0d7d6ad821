/** A parent and its child, for tests of nested workflows. */
import { childJobId } from "../../src/engine/ids.ts"
import type { Umbra } from "../../src/umbra.ts"
import { flow, until } from "./stage.ts"

export const inner = (nodes: Parameters<typeof flow>[0], rest = {}) => ({
  ...flow(nodes, rest),
  name: "inner",
})

/** A job whose node `child` runs `inner`. */
export const outer = (config: Record<string, unknown> = {}, node: Record<string, unknown> = {}) => ({
  ...flow([
    { id: "before", handler: "transform", config: { value: 20 } },
    {
      id: "child",
      handler: "workflow",
      config: { workflow: "inner", input: { n: "{{ before }}" }, ...config },
      ...node,
    },
    { id: "after", handler: "transform", config: { value: "{{ child.doubled + 2 }}" } },
  ]),
  name: "outer",
  output: "{{ after }}",
})

export const doubling = inner(
  [{ id: "double", handler: "transform", config: { value: "{{ input.n * 2 }}" } }],
  {
    output: { doubled: "{{ double }}" },
  },
)

export const childOf = (jobId: string, node = 1) => childJobId(jobId, node)

export async function waitsForChild(umbra: Umbra, jobId: string): Promise<void> {
  await until("the parent waits for its child", async () =>
    (await umbra.graph(jobId)).waiting_for.some(({ kind }) => kind === "child"),
  )
}
