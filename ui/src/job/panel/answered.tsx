/** Who sent the signal that a node waited for, and when. */
import { clock, timeAgo } from "../../model/format.ts"
import type { Moment, Timeline } from "../../model/timeline.ts"

interface SignalFact {
  readonly type: string
  readonly seq: number
  readonly at: number
  readonly name?: string
  readonly by?: string
  readonly item?: number
  readonly waiting?: { readonly kind: string; readonly name?: string }
}

export function Answered({ timeline, moment, node }: { timeline: Timeline; moment: Moment; node: number }) {
  const found = findAnswer(timeline, moment, node)
  if (found === null) return null
  const { fact, isEarly } = found
  return (
    <p data-answered={fact.by ?? "unknown"} title={timeAgo(fact.at)}>
      Signal <b>{fact.name}</b> arrived {isEarly ? "before the node waited for it, " : ""}at{" "}
      {clock(fact.at, moment.at)}
      {fact.by === undefined ? "." : <>, sent by {fact.by}.</>}
    </p>
  )
}

/** A signal that arrived before the node waited was kept: the first of its name. */
function findAnswer(timeline: Timeline, { seq, view }: Moment, node: number) {
  const own = (timeline.factsByNode.get(node) ?? [])
    .map(position => timeline.facts[position] as unknown as SignalFact)
    .filter(fact => fact.seq <= seq && fact.item === undefined)
  const direct = own.findLast(({ type }) => type === "signal_received")
  if (direct !== undefined) return { fact: direct, isEarly: false }
  const wait = own.findLast(({ type }) => type === "node_waiting")?.waiting
  if (wait?.kind !== "signal" || view.nodes[node]!.status !== "COMPLETED") return null
  const kept = (timeline.facts as unknown as readonly (SignalFact & { node?: number })[]).find(
    fact => fact.type === "signal_received" && fact.node === undefined && fact.name === wait.name,
  )
  return kept === undefined ? null : { fact: kept, isEarly: true }
}
