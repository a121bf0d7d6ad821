/** The graph of the fork: what is reused, runs, has changed or is pinned, by border, icon and word. */
import { memo } from "react"
import type { CompiledGraph } from "../../../src/core/index.ts"
import { CardFrame, type CardPlace, GraphView } from "../job/views/graph-view.tsx"
import { count, duration } from "../model/format.ts"
import type { Layout } from "../model/layout/layout.ts"
import { Icon, type IconName } from "../shell/icons.tsx"
import { type ForkKind, kindTexts, type OriginNode, runs, type Verdict } from "./draft.ts"

export const kindIcons: { readonly [kind in ForkKind]: IconName } = {
  reused: "link",
  skipped: "next",
  run: "play",
  changed: "pencil",
  pinned: "pin",
}

interface ForkGraphProps {
  readonly graph: CompiledGraph
  readonly layout: Layout
  readonly verdicts: ReadonlyMap<string, Verdict>
  readonly origin: ReadonlyMap<string, OriginNode>
  readonly selected: number | null
  readonly onSelect: (node: number) => void
}

export function ForkGraph({ graph, layout, verdicts, origin, selected, onSelect }: ForkGraphProps) {
  const of = (node: number) => verdicts.get(graph.nodes[node]!.id)
  const first = graph.nodes.findIndex(({ id }) => isChange(verdicts.get(id)))
  return (
    <GraphView
      {...{ graph, layout, selected, onSelect }}
      start={first === -1 ? null : first}
      card={(node, place) => {
        const verdict = of(node)
        return <ForkCard key={node} {...place} {...cardTexts(verdict, origin.get(place.id))} />
      }}
      edgeKind={(from, to) => {
        const [a, b] = [of(from), of(to)]
        if (b === undefined || a === undefined) return "ahead"
        if (a.kind === "skipped" || b.kind === "skipped") return "skipped"
        return runs(b) ? "run" : "done"
      }}
      far={node => {
        const kind = of(node)?.kind ?? "reused"
        const colour = kind === "changed" || kind === "pinned" ? "accent" : kind === "run" ? "ink-3" : null
        return { colour, text: kindTexts[kind] }
      }}
    />
  )
}

function isChange(verdict: Verdict | undefined): boolean {
  return verdict !== undefined && verdict.kind !== "reused" && verdict.kind !== "skipped"
}

interface CardTexts {
  readonly kind: ForkKind | null
  readonly left: string
  readonly right: string
  /** Its effect must be confirmed. */
  readonly isUnsafe: boolean
}

function cardTexts(verdict: Verdict | undefined, origin: OriginNode | undefined): CardTexts {
  if (verdict === undefined) return { kind: null, left: "", right: "", isUnsafe: false }
  const { kind, items, reason, effects } = verdict
  return {
    kind,
    left:
      items !== undefined && runs(verdict)
        ? `${count(items.run)} of ${count(items.run + items.reused)} items`
        : reason.code === "new"
          ? "new, will run"
          : kindTexts[kind],
    right: formatTime(verdict, origin),
    isUnsafe: effects === "unsafe",
  }
}

function formatTime(verdict: Verdict, origin: OriginNode | undefined): string {
  if (runs(verdict))
    return verdict.duration_ms == null
      ? "no data"
      : `about ${duration(verdict.duration_ms.p50)}`.replace("about <", "<")
  if (verdict.kind !== "reused" || origin?.duration_ms == null) return ""
  return duration(origin.duration_ms + (origin.waited_ms ?? 0))
}

const ForkCard = memo(function ForkCard(props: CardPlace & CardTexts) {
  const { id, kind, left, right, isUnsafe, isSmall } = props
  return (
    <CardFrame place={props} data={{ "data-fork": kind ?? undefined }}>
      <span className="h">
        {kind !== null && <Icon name={kindIcons[kind]} small />}
        <b>{id}</b>
        <span className="sr">, {kind === null ? "" : kindTexts[kind]}, </span>
        {isUnsafe && (
          <span className="x t-waiting" title="Its effect must be confirmed">
            <Icon name="warn" small />
            <span className="sr">its effect must be confirmed, </span>
          </span>
        )}
      </span>
      {!isSmall && (
        <span className="d">
          <span>{left}</span>
          {right !== "" && <span className="r">{right}</span>}
        </span>
      )}
    </CardFrame>
  )
})

/** The same on a narrow screen. */
export function ForkList({ graph, verdicts, origin, selected, onSelect }: Omit<ForkGraphProps, "layout">) {
  return (
    <ul className="flist" aria-label="Nodes">
      {graph.nodes.slice(0, MOST_ROWS).map(({ id }, node) => {
        const verdict = verdicts.get(id)
        const { kind, left, right, isUnsafe } = cardTexts(verdict, origin.get(id))
        return (
          <li key={id}>
            <button
              type="button"
              data-id={id}
              data-fork={kind ?? undefined}
              aria-current={node === selected}
              onClick={() => onSelect(node)}
            >
              {kind !== null && <Icon name={kindIcons[kind]} small />}
              <b className="trunc">{id}</b>
              {isUnsafe && (
                <span className="t-waiting">
                  <Icon name="warn" small />
                </span>
              )}
              <span className="sp" />
              <span className="small dim nowrap">
                {left}
                {right === "" ? "" : `, ${right}`}
              </span>
            </button>
          </li>
        )
      })}
      {graph.nodes.length > MOST_ROWS && (
        <li className="small dim">{count(graph.nodes.length - MOST_ROWS)} more nodes are not listed.</li>
      )}
    </ul>
  )
}

const MOST_ROWS = 300
