/** Two rows above the views: which job, what can be done with it, how far it is, and what it waits for. */
import type { ReactNode } from "react"
import {
  amount,
  clock,
  duration,
  elapsed,
  fullTime,
  shortId,
  timeAgo,
  versionText,
  visible,
} from "../model/format.ts"
import { jobSentence } from "../model/sentences.ts"
import type { Moment, Timeline } from "../model/timeline.ts"
import { family, Icon, Pill } from "../shell/icons.tsx"
import { pageHref } from "../shell/router.ts"
import { copyText } from "../shell/states.tsx"
import { Sentence } from "./panel/sentence.tsx"
import { mainUsage } from "./views/outline.tsx"

interface HeaderProps {
  readonly jobId: string
  readonly timeline: Timeline
  readonly moment: Moment
  readonly onNode: (id: string) => void
  readonly children?: ReactNode
}

export function JobHeader({ jobId, timeline, moment, onNode, children }: HeaderProps) {
  const { view, state } = moment
  const done = view.completed_operations
  const total = timeline.graph.nodes.length
  const why = jobSentence(view, moment.at)
  const usage = mainUsage(moment)
  const end = state.finishedAt ?? moment.at
  const { fault } = state
  const isPaused = view.paused !== undefined
  const begin = state.startAt ?? state.createdAt
  const isDelayed = view.status === "PENDING" && state.startAt !== null
  return (
    <header className="jhead">
      <div className="jt">
        <Pill status={view.status} />
        {isPaused && (
          <span className="pill paused" data-s="waiting">
            <Icon name="pause" small />
            PAUSED
          </span>
        )}
        <h1 className="trunc">{state.workflow}</h1>
        <span className="tagc">{versionText(state.workflowVersion)}</span>
        <button
          className="id mono hide-s"
          type="button"
          title={`Copy ${jobId}`}
          onClick={() => void copyText(jobId)}
        >
          {shortId(jobId)}
          <span className="sr">, copy the id</span>
          <Icon name="copy" small />
        </button>
        <span className="labels hide-s">
          {Object.entries(state.labels)
            .slice(0, 4)
            .map(([name, value]) => (
              <span key={name} className="tagc out trunc" title={visible(`${name}=${value}`)}>
                {visible(`${name}=${value}`)}
              </span>
            ))}
        </span>
        <span className="sp hide-s" />
        <div className="acts">{children}</div>
      </div>
      <div className="jm">
        <div className="prog" data-s={family(view.status)}>
          <span className="pbar" role="progressbar" aria-label="Progress" aria-valuenow={view.progress_pct}>
            <i style={{ width: `${view.progress_pct}%` }} />
          </span>
          <b>{view.progress_pct} %</b>
        </div>
        <dl className="jfacts">
          <div>
            <dt>Nodes</dt>
            <dd>
              {done} of {total}
            </dd>
          </div>
          {!isDelayed && (
            <div>
              <dt>{state.finishedAt === null ? "Elapsed" : "Took"}</dt>
              <dd>{state.finishedAt === null ? elapsed(end - begin) : duration(end - begin)}</dd>
            </div>
          )}
          {usage !== null && (
            <div>
              <dt>{/cost|usd/.test(usage) ? "Cost" : usage}</dt>
              <dd>{amount(usage, view.usage[usage]!)}</dd>
            </div>
          )}
          <div className="hide-s">
            <dt>{isDelayed ? "Starts" : "Started"}</dt>
            <dd title={isDelayed ? undefined : timeAgo(begin)}>
              {clock(begin)}
              {state.schedule !== null ? (
                <span className="dim">
                  {" "}
                  by{" "}
                  <a
                    className="link"
                    href={pageHref(`/schedules/${state.schedule.name}`)}
                    title={`tick of ${fullTime(state.schedule.tick)}`}
                  >
                    {state.schedule.name}
                  </a>
                </span>
              ) : (
                state.submittedBy !== null && <span className="dim"> by {state.submittedBy}</span>
              )}
            </dd>
          </div>
        </dl>
        {fault !== null && view.status === "FAILED" ? (
          <p className="jwhy" data-s="failed">
            <span className="trunc" title={fault.fault.message}>
              <b>{fault.fault.code}</b>{" "}
              {fault.node === undefined ? "" : `${timeline.graph.nodes[fault.node]!.id}: `}
              {fault.fault.message}
            </span>
          </p>
        ) : (
          why !== null && (
            <p className="jwhy" data-s={isPaused ? "waiting" : "queued"}>
              <span className="trunc">
                <Sentence parts={why} onNode={onNode} />
              </span>
            </p>
          )
        )}
      </div>
    </header>
  )
}
