/** All attempts of a node, the newest first. */
import type { NodeView } from "../../../../src/core/index.ts"
import { clock, duration, elapsed } from "../../model/format.ts"
import type { JobSource } from "../../model/source.ts"
import type { Moment, Timeline } from "../../model/timeline.ts"
import { type EndedTry, numbered } from "../../model/tries.ts"
import { StateMark } from "../../shell/icons.tsx"
import { changeQuery } from "../../shell/router.ts"

const words: { readonly [outcome: string]: string } = {
  lost: "Its process died while the attempt ran",
  handed_over: "Handed over: its process was stopped",
  postponed: "Postponed by the provider",
  cancelled: "Cancelled",
}

interface AttemptsProps {
  readonly timeline: Timeline
  readonly moment: Moment
  readonly node: number
}

/** How many rows the tab has at this moment. */
export function attemptCount(props: AttemptsProps): number {
  const { ended, hasCurrent } = attempts(props)
  return ended.length + (hasCurrent ? 1 : 0)
}

function attempts({ timeline, moment, node }: AttemptsProps) {
  const view = moment.view.nodes[node]!
  const ended = (timeline.tries.get(node) ?? []).filter(({ seq }) => seq <= moment.seq)
  const last = ended.at(-1)
  const isLastShown = last !== undefined && view.status === "FAILED" && last.endedAt === view.finished_at
  const hasCurrent =
    view.status !== "PENDING" &&
    view.status !== "SKIPPED" &&
    !isLastShown &&
    !(view.status === "CANCELLED" && view.started_at === null) &&
    view.queued_at !== null
  return { view, ended, hasCurrent }
}

function LogsLink({ attempt }: { attempt: number }) {
  return (
    <button
      className="btn ghost sm"
      type="button"
      onClick={() => changeQuery({ tab: "Logs", attempt: String(attempt), line: null }, { replace: true })}
    >
      Logs<span className="sr"> of attempt {attempt}</span>
    </button>
  )
}

export function AttemptsTab(props: AttemptsProps & { readonly source: JobSource }) {
  const { view, ended, hasCurrent } = attempts(props)
  if (!hasCurrent && ended.length === 0) return <p className="none">No attempt yet.</p>
  return (
    <ol className="att">
      {hasCurrent && <Current view={view} now={props.moment.at} hasLogs={props.source.hasLogs} />}
      {numbered(ended)
        .toReversed()
        .map(({ entry, number }) => (
          <Ended key={entry.seq} entry={entry} number={number} hasLogs={props.source.hasLogs} />
        ))}
    </ol>
  )
}

function Current({ view, now, hasLogs }: { view: NodeView; now: number; hasLogs: boolean }) {
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
        <span className="sp" />
        {hasLogs && waiting?.kind !== "retry" && <LogsLink attempt={attempt} />}
      </p>
    </li>
  )
}

function Ended({ entry, number, hasLogs }: { entry: EndedTry; number: number; hasLogs: boolean }) {
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
        <span className="sp" />
        {hasLogs && <LogsLink attempt={number} />}
      </p>
    </li>
  )
}
