/** Why a node is in its state, what failed, and what a person can do about it. */
import type { CompiledNode, NodeView } from "../../../../src/core/index.ts"
import { amount, clock, duration, shortId } from "../../model/format.ts"
import { readPayload } from "../../model/payloads.ts"
import { whySentence } from "../../model/sentences.ts"
import { StateMark } from "../../shell/icons.tsx"
import { pageHref } from "../../shell/router.ts"
import { Answer } from "./answer.tsx"
import { Answered } from "./answered.tsx"
import type { DrawerProps } from "./drawer.tsx"
import { ErrorBox } from "./error-box.tsx"
import { PayloadView } from "./payload-tabs.tsx"
import { Sentence } from "./sentence.tsx"
import { ServerWhy } from "./why-answer.tsx"

interface WhyTabProps extends DrawerProps {
  readonly node: number
  readonly view: NodeView
  readonly compiled: CompiledNode
}

export function WhyTab(props: WhyTabProps) {
  const { view, compiled, moment, timeline, source, onNode } = props
  const { error, waiting_on: waiting, usage, preview, child_job_id: child } = view
  return (
    <>
      <p className="say">
        <Sentence parts={whySentence(view, compiled, moment.at)} onNode={onNode} />
      </p>
      <ServerWhy {...{ source, timeline, moment, onNode }} node={props.node} />
      {error !== null && (error.node === undefined || error.node === view.id) && (
        <ErrorBox
          error={error}
          at={view.finished_at}
          {...(view.status === "FAILED" ? {} : { title: `The attempt before: ${error.code}` })}
        />
      )}
      <Answered {...{ timeline, moment }} node={props.node} />
      <Answer {...props} of={{ node: view.id }} waiting={waiting} />
      {view.progress !== null && view.progress.percent !== null && (
        <div
          className="bar"
          role="progressbar"
          aria-label="Progress"
          aria-valuenow={Math.round(view.progress.percent)}
        >
          <i data-s="running" style={{ width: `${view.progress.percent}%` }} />
        </div>
      )}
      {preview !== undefined && (
        <section>
          <h3>Preview</h3>
          <PayloadView
            payload={readPayload({ seq: moment.seq, preview } as never, "preview")}
            source={source}
            label="preview"
          />
        </section>
      )}
      <dl className="kv">
        {times(view, moment.at).map(([name, text]) => (
          <Pair key={name} name={name} text={text} />
        ))}
        {view.worker !== null && <Pair name="Worker" text={view.worker} />}
        {view.losses > 0 && <Pair name="Lost attempts" text={String(view.losses)} />}
        {Object.entries(usage ?? {}).map(([name, value]) => (
          <Pair key={name} name={name} text={amount(name, value)} />
        ))}
      </dl>
      {child !== undefined && (
        <p>
          Child job{" "}
          <a className="link mono" href={pageHref(`/jobs/${child}`)}>
            {shortId(child)}
          </a>
        </p>
      )}
      {view.reused_from !== undefined && (
        <p>
          Its result was taken over from job{" "}
          <a
            className="link mono"
            href={pageHref(`/jobs/${view.reused_from}?node=${encodeURIComponent(view.id)}`)}
          >
            {shortId(view.reused_from)}
          </a>
        </p>
      )}
      {view.pinned === true && <p>Its output was set by the request of the fork.</p>}
      <Neighbours node={props.node} timeline={timeline} moment={moment} onNode={onNode} />
    </>
  )
}

export function Pair({ name, text }: { name: string; text: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{text}</dd>
    </>
  )
}

function times(view: NodeView, now: number): (readonly [string, string])[] {
  const { queued_at, started_at, finished_at, duration_ms, queued_ms, waited_ms } = view
  const rows: (readonly [string, string])[] = []
  if (queued_at !== null) rows.push(["Queued", clock(queued_at, now)])
  if (started_at !== null)
    rows.push([
      "Started",
      `${clock(started_at, now)}${queued_ms === null ? "" : `, after ${duration(queued_ms)}`}`,
    ])
  if (finished_at !== null) rows.push(["Ended", clock(finished_at, now)])
  if (duration_ms !== null) rows.push(["Ran", duration(duration_ms)])
  if (waited_ms !== null) rows.push(["Waited", duration(waited_ms)])
  return rows
}

/** The node's dependencies and dependents, with their states. */
function Neighbours({
  node,
  timeline,
  moment,
  onNode,
}: Pick<WhyTabProps, "timeline" | "moment" | "onNode"> & { node: number }) {
  const { nodes } = timeline.graph
  const { id, depends_on } = nodes[node]!
  const after = nodes.filter(({ depends_on: above }) => above.includes(id)).map(other => other.id)
  const list = (title: string, ids: readonly string[]) =>
    ids.length > 0 && (
      <section>
        <h3>{title}</h3>
        <ul className="nlist">
          {ids.slice(0, 30).map(other => (
            <li key={other}>
              <StateMark status={moment.view.nodes[timeline.positions.get(other)!]!.status} />
              <button className="link" type="button" onClick={() => onNode(other)}>
                {other}
              </button>
            </li>
          ))}
          {ids.length > 30 && <li className="dim small">and {ids.length - 30} more</li>}
        </ul>
      </section>
    )
  return (
    <>
      {list("Depends on", depends_on)}
      {list("Needed by", after)}
    </>
  )
}
