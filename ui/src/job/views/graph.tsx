/** The graph of a job: a moment changes marks, words and figures, and moves nothing. */
import type { CompiledGraph, NodeView } from "../../../../src/core/index.ts"
import { buildCard } from "../../model/card.ts"
import type { Layout } from "../../model/layout/layout.ts"
import type { Moment } from "../../model/timeline.ts"
import { family } from "../../shell/icons.tsx"
import { NodeCard } from "./card.tsx"
import type { EdgeKind } from "./edges.ts"
import { GraphView } from "./graph-view.tsx"

export interface GraphProps {
  readonly graph: CompiledGraph
  readonly layout: Layout
  readonly moment: Moment
  readonly selected: number | null
  /** Nodes that match the query; null: there is none. */
  readonly matches: ReadonlySet<number> | null
  readonly onSelect: (node: number) => void
}

export function Graph({ graph, layout, moment, selected, matches, onSelect }: GraphProps) {
  const { nodes } = moment.view
  return (
    <GraphView
      {...{ graph, layout, selected, matches, onSelect }}
      start={firstOpen(moment)}
      card={(node, place) => (
        <NodeCard key={node} {...place} {...buildCard(nodes[node]!, graph.nodes[node]!, moment.at)} />
      )}
      edgeKind={(from, to) => edgeKind(nodes[from]!, nodes[to]!)}
      far={node => {
        const { status } = nodes[node]!
        const state = family(status)
        const isOutline = state === "pending" || state === "skipped"
        return { colour: isOutline ? null : state, text: status.toLowerCase() }
      }}
    />
  )
}

function edgeKind(from: NodeView, to: NodeView): EdgeKind {
  if (from.status === "SKIPPED" || to.status === "SKIPPED") return "skipped"
  if (from.status === "FAILED") return "failed"
  if (to.status === "RUNNING") return "live"
  return to.status === "PENDING" || to.status === "CANCELLED" ? "ahead" : "done"
}

const open = new Set(["RUNNING", "WAITING", "QUEUED", "FAILED"])

function firstOpen({ view }: Moment): number | null {
  const found = view.nodes.findIndex(({ status }) => open.has(status))
  return found === -1 ? null : found
}
