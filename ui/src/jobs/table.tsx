/** The jobs as rows. New ones do not push rows down. */

import type { StreamedJob } from "../api/jobs-stream.ts"
import type { ListedJob, Paused } from "../api/types.ts"
import { amount, clock, duration, elapsed, shortId, timeAgo, versionText } from "../model/format.ts"
import { family, StateMark } from "../shell/icons.tsx"
import { hrefOf } from "../shell/router.ts"

interface TableProps {
  readonly jobs: readonly ListedJob[]
  /** What has changed since the page was read, by id. */
  readonly news: ReadonlyMap<string, StreamedJob>
  readonly now: number
}

export function JobTable({ jobs, news, now }: TableProps) {
  const hasUsage = jobs.some(({ usage }) => usage !== null && Object.keys(usage).length > 0)
  return (
    <table className="tbl jtbl">
      <thead>
        <tr>
          <th>Status</th>
          <th>Job</th>
          <th>Workflow</th>
          <th>Where it is</th>
          <th className="num">Progress</th>
          <th className="num">Duration</th>
          {hasUsage && <th className="num">Usage</th>}
          <th className="num">Started</th>
        </tr>
      </thead>
      <tbody>
        {jobs.map(listed => {
          const news_ = news.get(listed.job_id)
          const job =
            news_ === undefined || news_.updated_at < listed.updated_at
              ? listed
              : { ...listed, ...news_, paused: news_.paused ?? null }
          return (
            <Row
              key={job.job_id}
              job={job}
              progress={news_?.progress_pct ?? null}
              message={news_?.progress_message ?? null}
              hasUsage={hasUsage}
              now={now}
            />
          )
        })}
      </tbody>
    </table>
  )
}

function Row({
  job,
  progress,
  message,
  hasUsage,
  now,
}: {
  job: ListedJob
  progress: number | null
  message: string | null
  hasUsage: boolean
  now: number
}) {
  const created = Date.parse(job.created_at)
  const finished = job.finished_at === null ? null : Date.parse(job.finished_at)
  const [usage] = Object.entries(job.usage ?? {})
  const { error } = job
  return (
    <tr data-s={family(job.status)} data-job={job.job_id}>
      <td className="c1">
        <span className="st">
          <StateMark status={job.status} />
          <span className={job.status === "FAILED" ? "t-failed" : undefined}>{job.status}</span>
          {job.paused !== null && (
            <span className="tagc" title={pauseText(job.paused)}>
              paused
            </span>
          )}
        </span>
      </td>
      <td className="c2">
        <a className="mono link jl" href={hrefOf(`/jobs/${job.job_id}`)} title={job.job_id}>
          {shortId(job.job_id)}
        </a>
      </td>
      <td className="c3">
        <span className="med">{job.workflow}</span>{" "}
        <span className="dim">{versionText(job.workflow_version)}</span>
      </td>
      <td className="c4">
        <div className="trunc" title={error?.message ?? job.reason ?? undefined}>
          {error !== null ? (
            <>
              <span className="t-failed mono">{error.code}</span>{" "}
              {error.node === undefined
                ? ""
                : `${error.node}${error.item === undefined ? "" : `[${error.item}]`}: `}
              {error.message}
            </>
          ) : (
            (job.reason ?? (job.paused === null ? message : pauseText(job.paused)) ?? labelText(job.labels))
          )}
        </div>
      </td>
      <td className="c5 num">
        {progress !== null && finished === null && (
          <>
            <span className="pb">
              <i style={{ width: `${progress}%` }} />
            </span>
            {progress} %
          </>
        )}
      </td>
      <td className="c6 num">{finished === null ? elapsed(now - created) : duration(finished - created)}</td>
      {hasUsage && <td className="c7 num">{usage === undefined ? "" : amount(...usage)}</td>}
      <td className="c8 num dim" title={timeAgo(created)}>
        {clock(created)}
      </td>
    </tr>
  )
}

function pauseText({ at, by, reason }: Paused): string {
  return `Paused since ${clock(Date.parse(at))}${by === null ? "" : ` by ${by}`}${reason === null ? "" : `: ${reason}`}`
}

function labelText(labels: { readonly [name: string]: string }): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join("  ")
}
