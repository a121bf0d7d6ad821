/** Layouts from the worker, one per compiled graph. */
import { useEffect, useState } from "react"
import type { CompiledGraph } from "../../../../src/core/index.ts"
import type { Layout } from "./layout.ts"

const RETRY_MS = 1000

interface Question {
  readonly id: number
  readonly graph: { readonly nodes: readonly object[] }
}

const known = new WeakMap<CompiledGraph, Promise<Layout>>()
const waiting = new Map<number, { readonly question: Question; readonly done: (layout: Layout) => void }>()
let worker: Worker | null = null
let asked = 0

export function requestLayout(graph: CompiledGraph): Promise<Layout> {
  const before = known.get(graph)
  if (before !== undefined) return before
  worker ??= startWorker()
  const id = asked++
  // Only what the layout depends on.
  const nodes = graph.nodes.map(({ id: name, depends_on, for_each }) => ({ id: name, depends_on, for_each }))
  const question = { id, graph: { nodes } }
  const layout = new Promise<Layout>(done => waiting.set(id, { question, done }))
  worker.postMessage(question)
  known.set(graph, layout)
  return layout
}

/** The graph with its layout; the last one stays until the next one has its places. */
export function useLayout(graph: CompiledGraph | undefined) {
  const [shown, setShown] = useState<{ readonly graph: CompiledGraph; readonly layout: Layout } | null>(null)
  useEffect(() => {
    let isWanted = graph !== undefined
    if (graph !== undefined) void requestLayout(graph).then(layout => isWanted && setShown({ graph, layout }))
    return () => {
      isWanted = false
    }
  }, [graph])
  return shown
}

function startWorker(): Worker {
  const started = new Worker(new URL("./layout-worker.ts", import.meta.url), { type: "module" })
  started.onmessage = ({ data }: MessageEvent<{ id: number; layout: Layout }>) => {
    waiting.get(data.id)?.done(data.layout)
    waiting.delete(data.id)
  }
  // Its script could not be loaded: the connection was lost.
  started.onerror = () => {
    started.terminate()
    setTimeout(() => {
      worker = startWorker()
      for (const { question } of waiting.values()) worker.postMessage(question)
    }, RETRY_MS)
  }
  return started
}
