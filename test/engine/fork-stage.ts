/** What tests of forks share: handlers that count, a workflow, and checks of a fork. */
import { expect } from "vitest"
import { apply, graphView, newState } from "../../src/core/index.ts"
import type { Json } from "../../src/core/json.ts"
import type { Umbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { flow } from "./stage.ts"

/** Handlers that count their runs, and fail while the test says so. */
export function counting() {
  const runs: string[] = []
  const failing = new Set<string>()
  const work = defineHandler({
    name: "work",
    effects: false,
    readsInput: false,
    run(config, ctx) {
      const { value, name = ctx.nodeId } = config as { value?: Json; name?: string }
      runs.push(name)
      if (failing.has(name)) throw Object.assign(new Error(`${name} fails`), { retryable: false })
      return value ?? name
    },
  })
  return { work, runs, failing, take: () => runs.splice(0).sort() }
}

export const chain = flow(
  [
    { id: "a", handler: "work", config: { value: "{{ input.a }}" } },
    { id: "b", handler: "work", config: { value: "{{ a }}-b" } },
    { id: "c", handler: "work", config: { value: "{{ b }}-c" } },
  ],
  { output: { c: "{{ c }}", a: "{{ a }}" } },
)

export async function graphOf(umbra: Umbra, jobId: string) {
  const { nodes, forked_from, status } = await umbra.graph(jobId)
  return { status, forked_from, nodes: Object.fromEntries(nodes.map(node => [node.id, node])) }
}

/** The browser's fold of the fork's facts gives the server's graph. */
async function expectFoldsAlike(umbra: Umbra, jobId: string): Promise<void> {
  const { facts } = await umbra.queries.facts.page(jobId, { limit: 1000 })
  const state = newState(await umbra.queries.facts.readCompiledGraph(jobId))
  for (const record of facts) apply(state, record)
  const { seq, at } = facts.at(-1)!
  const { moment: _, ...graph } = await umbra.queries.facts.graphAt(jobId, { seq })
  expect(JSON.parse(JSON.stringify(graphView(state, { now: at })))).toEqual(JSON.parse(JSON.stringify(graph)))
}

export async function expectSound(umbra: Umbra, jobId: string): Promise<void> {
  expect(await umbra.queries.verify(await umbra.queries.row(jobId))).toEqual([])
  await expectFoldsAlike(umbra, jobId)
  for (const event of await umbra.events(jobId)) expect(event.correlation_id).toBe(jobId)
}
