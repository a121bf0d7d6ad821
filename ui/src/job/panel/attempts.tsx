/** All attempts of a node, the newest first. */
import type { NodeView } from "../../../../src/core/index.ts"
import { clock, duration, elapsed } from "../../model/format.ts"
import type { Moment, Timeline } from "../../model/timeline.ts"
import type { EndedTry } from "../../model/tries.ts"
import { StateMark } from "../../shell/icons.tsx"

const words: { readonly [outcome: string]: string } = {
  lost: "Its process ended while it ran",
  handed_over: "Handed over: its process was stopped",
  postponed: "Postponed by the provider",
  cancelled: "Cancelled",
}

export function AttemptsTab({
  timeline,
  moment,
  node,
}: {
  timeline: Timeline
  moment: Moment
  node: number
}) {
  const view = moment.view.nodes[node]!
  const ended = (timeline.tries.get(node) ?? []).filter(({ seq }) => seq <= moment.seq)
  const last = ended.at(-1)
  const isLastShown = last !== undefined && view.status === "FAILED" && last.endedAt === view.finished_at
  const hasBegun =
    view.status !== "PENDING" &&
    view.status !== "SKIPPED" &&
    !isLastShown &&
    !(view.status === "CANCELLED" && view.started_at === null) &&
    view.queued_at !== null
  if (!hasBegun && ended.length === 0) return <p className="none">No attempt yet.</p>
  return (
    <ol className="att">
      {hasBegun && <Current view={view} now={moment.at} />}
      {ended.toReversed().map((entry, n) => (
        <Ended key={entry.seq} entry={entry} number={ended.length - n} />
      ))}
    </ol>
  )
}

function Current({ view, now }: { view: NodeView; now: number }) {
  const { status, attempt, waiting_on: waiting, started_at, duration_ms, worker, queued_ms } = view
  const title = waiting?.kind === "retry" ? "Next try" : status.toLowerCase()
  const time =
    duration_ms !== null ? duration(duration_ms) : started_at === null ? "" : elapsed(now - started_at)
  return (
    <li>
      <div className="row">
        <StateMark status={status} />
        <b>{attempt}</b>
        <span>{title}</span>
        <span className="sp" />
        <span className="small dim">
          {waiting?.kind === "retry" ? `in ${elapsed(waiting.at - now)}` : time}
        </span>
      </div>
      <p className="row tiny dim">
        {worker !== null && <span>{worker}</span>}
        {queued_ms !== null && <span>queued {duration(queued_ms)}</span>}
        {started_at !== null && <span>{clock(started_at, now)}</span>}
      </p>
    </li>
  )
}

function Ended({ entry, number }: { entry: EndedTry; number: number }) {
  const { outcome, error, startedAt, endedAt, worker } = entry
  return (
    <li>
      <div className="row">
        <StateMark status={outcome === "failed" ? "FAILED" : "CANCELLED"} />
        <b>{number}</b>
        <span>{error?.code ?? words[outcome] ?? outcome}</span>
        <span className="sp" />
        <span className="small dim">{startedAt === null ? "" : duration(endedAt - startedAt)}</span>
      </div>
      {error !== null && <p className="small mid break-words">{error.message}</p>}
      <p className="row tiny dim">
        {worker !== null && <span>{worker}</span>}
        <span>{clock(endedAt)}</span>
      </p>
    </li>
  )
}
