/** Lays out graphs beside the page, which stays responsive meanwhile. */
import type { CompiledGraph } from "../../../../src/core/index.ts"
import { computeLayout } from "./layout.ts"

self.onmessage = ({ data }: MessageEvent<{ readonly id: number; readonly graph: CompiledGraph }>) => {
  self.postMessage({ id: data.id, layout: computeLayout(data.graph) })
}
