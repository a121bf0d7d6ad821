/** The graph of a version, without states: what a node is, and what has changed or is wrong. */
import { memo, useState } from "react"
import type { CompiledGraph } from "../../../src/core/index.ts"
import { CardFrame, type CardPlace, GraphView } from "../job/views/graph-view.tsx"
import { useLayout } from "../model/layout/layouts.ts"
import { Icon, type IconName } from "../shell/icons.tsx"
import { Loading } from "../shell/states.tsx"

export type Mark = "added" | "removed" | "changed" | "broken"

const markIcons: { readonly [mark in Mark]: IconName } = {
  added: "plus",
  removed: "minus",
  changed: "diamond",
  broken: "octagon",
}

interface PlanGraphProps {
  readonly graph: CompiledGraph
  /** By node id. */
  readonly marks?: ReadonlyMap<string, Mark>
  readonly onNode?: (id: string) => void
}

const none: ReadonlyMap<string, Mark> = new Map()

export function PlanGraph({ graph, marks = none, onNode }: PlanGraphProps) {
  const shown = useLayout(graph)
  const [selected, setSelected] = useState<string | null>(null)
  if (shown === null) return <Loading what="the graph" rows={4} />
  const { graph: drawn, layout } = shown
  const position = drawn.nodes.findIndex(({ id }) => id === selected)
  return (
    <GraphView
      // Another shape is shown whole; the same one keeps its place.
      key={`${layout.width} ${layout.height} ${drawn.nodes.length}`}
      graph={drawn}
      layout={layout}
      selected={position === -1 ? null : position}
      onSelect={node => {
        const { id } = drawn.nodes[node]!
        setSelected(id)
        onNode?.(id)
      }}
      card={(node, place) => {
        const { handler, provider } = drawn.nodes[node]!
        return (
          <PlanCard key={node} {...place} kind={provider ?? handler} mark={marks.get(place.id) ?? null} />
        )
      }}
      edgeKind={(from, to) => {
        const of = (node: number) => marks.get(drawn.nodes[node]!.id)
        return of(from) === "removed" || of(to) === "removed" ? "skipped" : "done"
      }}
      far={node => {
        const mark = marks.get(drawn.nodes[node]!.id)
        return {
          colour: mark === undefined || mark === "removed" ? null : mark === "broken" ? "failed" : "accent",
          text: mark ?? "",
        }
      }}
    />
  )
}

const PlanCard = memo(function PlanCard(props: CardPlace & { kind: string; mark: Mark | null }) {
  const { id, kind, mark, isSmall, isList, isChild } = props
  return (
    <CardFrame place={props} look="plan" data={{ "data-mark": mark ?? undefined }}>
      <span className="h">
        {mark !== null && <Icon name={markIcons[mark]} small />}
        <b>{id}</b>
        {isList && <span className="x">×n</span>}
        {isChild && <Icon name="child" small />}
        {mark !== null && <span className="sr">, {mark}</span>}
      </span>
      {!isSmall && (
        <span className="d">
          <span>{kind}</span>
          {mark !== null && <span className="r">{mark}</span>}
        </span>
      )}
    </CardFrame>
  )
})
