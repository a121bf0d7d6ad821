/** The job itself: why it is in its state, its error, its times and usage, its parent and child jobs. */
import {
  amount,
  clock,
  duration,
  fullTime,
  shortId,
  timeAgo,
  versionText,
  visible,
} from "../../model/format.ts"
import { jobSentence } from "../../model/sentences.ts"
import { pageHref } from "../../shell/router.ts"
import type { DrawerProps } from "./drawer.tsx"
import { ErrorBox } from "./error-box.tsx"
import { Sentence } from "./sentence.tsx"
import { Pair } from "./why.tsx"
import { ServerWhy } from "./why-answer.tsx"

export function JobTab({ timeline, moment, source, onNode }: DrawerProps) {
  const { state, view } = moment
  const { fault, parent, labels } = state
  const why = jobSentence(view, moment.at)
  const children = [...state.children.values()]
  const failedNode = fault?.node === undefined ? null : timeline.graph.nodes[fault.node]!.id
  return (
    <>
      <p className="say">
        {why === null ? headline(view.status, state.endReason) : <Sentence parts={why} onNode={onNode} />}
      </p>
      <ServerWhy {...{ source, timeline, moment, onNode }} node={null} />
      {fault !== null && (
        <ErrorBox
          error={fault.fault as never}
          at={state.finishedAt}
          title={`${fault.fault.code}${failedNode === null ? "" : ` at ${failedNode}${fault.item === undefined ? "" : `[${fault.item}]`}`}`}
        />
      )}
      {failedNode !== null && (
        <p>
          <button className="btn sm" type="button" onClick={() => onNode(failedNode)}>
            Open {failedNode}
          </button>
        </p>
      )}
      <dl className="kv">
        <Pair name="Id" text={source.jobId} />
        <Pair name="Workflow" text={`${state.workflow} ${versionText(state.workflowVersion)}`} />
        <Pair name="Owner" text={state.owner} />
        {state.submittedBy !== null && <Pair name="Submitted by" text={state.submittedBy} />}
        <Pair name="Submitted" text={timeAgo(state.createdAt)} />
        {state.finishedAt !== null && (
          <Pair
            name="Ended"
            text={`${fullTime(state.finishedAt)}, after ${duration(Math.max(0, state.finishedAt - (state.startAt ?? state.createdAt)))}`}
          />
        )}
        {state.expiresAt !== null && state.finishedAt === null && (
          <Pair name="Expires" text={clock(state.expiresAt, moment.at)} />
        )}
        {state.priority !== 0 && <Pair name="Priority" text={String(state.priority)} />}
        {Object.entries(labels).map(([name, value]) => (
          <Pair key={name} name={visible(`Label ${name}`)} text={visible(value)} />
        ))}
        {Object.entries(view.usage).map(([name, value]) => (
          <Pair key={name} name={name} text={amount(name, value)} />
        ))}
      </dl>
      {state.schedule !== null && (
        <p data-schedule>
          Started by schedule{" "}
          <a className="link" href={pageHref(`/schedules/${state.schedule.name}`)}>
            {state.schedule.name}
          </a>
          , for its tick of {fullTime(state.schedule.tick)}
        </p>
      )}
      {state.forkedFrom !== null && (
        <p>
          Fork of job{" "}
          <a className="link mono" href={pageHref(`/jobs/${state.forkedFrom}`)}>
            {shortId(state.forkedFrom)}
          </a>
        </p>
      )}
      {parent !== null && (
        <p>
          Runs for job{" "}
          <a className="link mono" href={pageHref(`/jobs/${parent.job_id}`)}>
            {shortId(parent.job_id)}
          </a>
        </p>
      )}
      {children.length > 0 && (
        <section>
          <h3>Child jobs</h3>
          <ul className="nlist">
            {children.slice(0, 50).map(id => (
              <li key={id}>
                <a className="link mono" href={pageHref(`/jobs/${id}`)}>
                  {shortId(id)}
                </a>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  )
}

function headline(status: string, reason: string | null): string {
  switch (status) {
    case "COMPLETED":
      return "Done: all nodes are completed or skipped."
    case "FAILED":
      return "Failed."
    case "CANCELLED":
      return `Cancelled: ${reason ?? "no reason was given"}`
    case "EXPIRED":
      return `Expired: ${reason ?? "its time to live ended."}`
    case "QUEUED":
      return "Waits in the store: its engine has no capacity for it yet."
    default:
      return "At work."
  }
}
