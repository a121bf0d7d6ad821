/** Executions of pipelines, newest first, with the sums of their routes and their dead letters. */
import { useQuery } from "@tanstack/react-query"
import { useState } from "react"
import { ask } from "../api/http.ts"
import { useRefetchOnChange } from "../api/jobs-stream.ts"
import type { Session } from "../api/session.ts"
import type { ListedJob } from "../api/types.ts"
import { clock, count, duration, elapsed, shortId, timeAgo, versionText } from "../model/format.ts"
import { family, Icon, StateMark } from "../shell/icons.tsx"
import { rowKeys, useKeys } from "../shell/keys.ts"
import { changeQuery, pageHref, usePlace } from "../shell/router.ts"
import { liveState, Shell } from "../shell/shell.tsx"
import { Empty, Failed, Loading, Main, Pager, useTitle } from "../shell/states.tsx"

interface Execution
  extends Pick<
    ListedJob,
    "job_id" | "workflow" | "workflow_version" | "status" | "error" | "paused" | "created_at" | "finished_at"
  > {
  readonly messages: {
    readonly queued: number
    readonly waiting: number
    readonly done: number
    readonly failed: number
  }
  readonly dead_letters: {
    readonly count: number
    readonly first: {
      readonly message: string
      readonly error: { readonly code: string; readonly message: string }
    } | null
  }
}

export interface ExecutionPage {
  readonly executions: readonly Execution[]
  readonly next: string | null
  readonly complete: boolean
}

/** The server counts dead letters up to this number. */
const MOST_DEAD = 1000

const REFETCH_MS = 3000
/** Messages do not change jobs: without a change the list is read twice a minute. */
const IDLE_MS = 30_000

export default function PipelinesPage({ session }: { session: Session }) {
  const { query } = usePlace()
  const isDead = query.get("dead") === "1"
  /** `after` of this page and of those before it. */
  const [cursors, setCursors] = useState<readonly string[]>([])
  const after = cursors.at(-1)
  const { lostSince } = useRefetchOnChange("executions", REFETCH_MS)
  const { data, error, refetch, dataUpdatedAt } = useQuery({
    queryKey: ["executions", isDead, after ?? null],
    queryFn: ({ signal }) =>
      ask<ExecutionPage>("/executions", {
        query: { dead_letters: isDead ? "true" : null, after, limit: 50 },
        signal,
      }),
    refetchInterval: after === undefined ? IDLE_MS : false,
    placeholderData: before => before,
  })
  useTitle("Pipelines")
  useKeys({ r: () => void refetch(), ...rowKeys(".pl") })
  const show = (dead: boolean) => {
    setCursors([])
    changeQuery({ dead: dead ? "1" : null })
  }
  return (
    <Shell session={session} page="pipelines" connection={liveState(lostSince)}>
      <Main>
        <div className="phead">
          <h1>Pipelines</h1>
          <span className="dim">{data !== undefined && `as of ${clock(dataUpdatedAt)}`}</span>
          <span className="sp" />
          <fieldset className="seg" aria-label="Which executions">
            <button type="button" aria-pressed={!isDead} onClick={() => show(false)}>
              All
            </button>
            <button type="button" aria-pressed={isDead} onClick={() => show(true)}>
              With dead letters
            </button>
          </fieldset>
          <button className="btn hide-s" type="button" title="Refresh  R" onClick={() => void refetch()}>
            <Icon name="retry" />
            Refresh
          </button>
        </div>
        <section className="panel" aria-label="Executions">
          {error !== null && (
            <Failed
              what="The executions"
              error={error}
              note={
                data === undefined
                  ? "This does not mean that there are none."
                  : `Below is what was known at ${clock(dataUpdatedAt)}.`
              }
              onRetry={() => void refetch()}
            />
          )}
          {data === undefined ? (
            error === null && <Loading what="the executions" rows={8} />
          ) : data.executions.length === 0 ? (
            error === null && data.complete && <None isDead={isDead} />
          ) : (
            <List executions={data.executions} />
          )}
          {data !== undefined && (data.next !== null || cursors.length > 0 || !data.complete) && (
            <Pager names={["Newer", "Older"]} {...{ cursors }} next={data.next} onCursors={setCursors}>
              {!data.complete && "The search was bounded: “Older” continues it."}
            </Pager>
          )}
        </section>
      </Main>
    </Shell>
  )
}

function None({ isDead }: { isDead: boolean }) {
  return isDead ? (
    <Empty title="No dead letters">
      <p>Every message that failed permanently has been replayed, or none did.</p>
    </Empty>
  ) : (
    <Empty title="No pipeline has run yet">
      <p>A pipeline is a document with routes. Push one and submit it as any workflow.</p>
    </Empty>
  )
}

function List({ executions }: { executions: readonly Execution[] }) {
  const now = Date.now()
  return (
    <div className="bscroll">
      <table className="tbl extbl">
        <thead>
          <tr>
            <th>Status</th>
            <th>Pipeline</th>
            <th className="hide-s">Job</th>
            <th className="num">Done</th>
            <th className="num hide-s">Queued, in flight</th>
            <th className="num hide-s">Waiting</th>
            <th className="num">Dead letters</th>
            <th className="num hide-s">Duration</th>
            <th className="num hide-s">Started</th>
          </tr>
        </thead>
        <tbody>
          {executions.map(execution => {
            const { job_id, status, workflow, workflow_version, messages, dead_letters, paused, error } =
              execution
            const created = Date.parse(execution.created_at)
            const end = execution.finished_at === null ? now : Date.parse(execution.finished_at)
            return (
              <tr key={job_id} data-job={job_id} data-s={family(status)}>
                <td>
                  <span className="st">
                    <StateMark status={status} />
                    <span className="sr">{status}</span>
                    <span className={status === "FAILED" ? "t-failed hide-s" : "hide-s"} aria-hidden="true">
                      {status}
                    </span>
                    {paused != null && <span className="tagc">paused</span>}
                  </span>
                </td>
                <td className="wrap">
                  <a className="med pl" href={pageHref(`/jobs/${job_id}`)}>
                    {workflow}
                  </a>{" "}
                  <span className="tagc">{versionText(workflow_version)}</span>
                  {error !== null && (
                    <p className="small dim">
                      <span className="mono t-failed">{error.code}</span> {error.message}
                    </p>
                  )}
                </td>
                <td className="mono dim hide-s">{shortId(job_id)}</td>
                <td className="num">{count(messages.done)}</td>
                <td className="num hide-s">{count(messages.queued)}</td>
                <td className="num hide-s">{count(messages.waiting)}</td>
                <td className={dead_letters.count > 0 ? "num t-failed" : "num dim"}>
                  {count(dead_letters.count)}
                  {dead_letters.count >= MOST_DEAD ? "+" : ""}
                </td>
                <td className="num hide-s">
                  {(execution.finished_at === null ? elapsed : duration)(end - created)}
                </td>
                <td className="num dim hide-s" title={timeAgo(created)}>
                  {clock(created)}
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}
