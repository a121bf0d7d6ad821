/** Layouts from the worker, one per compiled graph. */
import type { CompiledGraph } from "../../../src/core/index.ts"
import type { Layout } from "./layout.ts"

const known = new WeakMap<CompiledGraph, Promise<Layout>>()
const waiting = new Map<number, (layout: Layout) => void>()
let worker: Worker | null = null
let asked = 0

export function requestLayout(graph: CompiledGraph): Promise<Layout> {
  const before = known.get(graph)
  if (before !== undefined) return before
  worker ??= startWorker()
  const id = asked++
  // Only what the layout depends on.
  const nodes = graph.nodes.map(({ id: name, depends_on, for_each }) => ({ id: name, depends_on, for_each }))
  const layout = new Promise<Layout>(done => waiting.set(id, done))
  worker.postMessage({ id, graph: { nodes } })
  known.set(graph, layout)
  return layout
}

function startWorker(): Worker {
  const started = new Worker(new URL("./layout-worker.ts", import.meta.url), { type: "module" })
  started.onmessage = ({ data }: MessageEvent<{ id: number; layout: Layout }>) => {
    waiting.get(data.id)?.(data.layout)
    waiting.delete(data.id)
  }
  return started
}
