/** The jobs as rows. New ones do not push rows down. */

import { useQuery } from "@tanstack/react-query"
import { ask } from "../api/http.ts"
import type { StreamedJob } from "../api/jobs-stream.ts"
import type { ListedJob, Paused } from "../api/types.ts"
import {
  amount,
  clock,
  duration,
  elapsed,
  shortId,
  timeAgo,
  versionText,
  visible,
  withClock,
} from "../model/format.ts"
import { family, StateMark } from "../shell/icons.tsx"
import { pageHref } from "../shell/router.ts"

interface TableProps {
  readonly jobs: readonly ListedJob[]
  /** What has changed since the page was read, by id. */
  readonly changes: ReadonlyMap<string, StreamedJob>
  readonly now: number
}

export function JobTable({ jobs, changes, now }: TableProps) {
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
          const change = changes.get(listed.job_id)
          const job =
            change === undefined || change.updated_at < listed.updated_at
              ? listed
              : { ...listed, ...change, paused: change.paused ?? null }
          return (
            <Row
              key={job.job_id}
              job={job}
              progress={change?.progress_pct ?? null}
              message={change?.progress_message ?? null}
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
  const begun = Date.parse(job.start_at ?? job.created_at)
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
        <a className="mono link jl" href={pageHref(`/jobs/${job.job_id}`)} title={job.job_id}>
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
            (job.reason ??
            (job.paused === null ? message : pauseText(job.paused)) ?? <Where job={job} now={now} />)
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
      <td className="c6 num">
        {(finished ?? now) < begun
          ? ""
          : finished === null
            ? elapsed(now - begun)
            : duration(finished - begun)}
      </td>
      {hasUsage && <td className="c7 num">{usage === undefined ? "" : amount(...usage)}</td>}
      <td className="c8 num dim" title={timeAgo(created)}>
        {clock(created)}
      </td>
    </tr>
  )
}

/** A job that has not changed for this long is waiting for something. */
const SETTLED_MS = 2000

/** What an unfinished job waits for, read once after each of its changes; else its labels. */
function Where({ job, now }: { job: ListedJob; now: number }) {
  const why = useQuery({
    queryKey: ["where", job.job_id, job.updated_at],
    queryFn: ({ signal }) => ask<{ readonly sentence: string }>(`/jobs/${job.job_id}/why`, { signal }),
    enabled: job.finished_at === null && now - Date.parse(job.updated_at) > SETTLED_MS,
    staleTime: Number.POSITIVE_INFINITY,
  })
  return job.finished_at === null && why.data !== undefined
    ? withClock(why.data.sentence)
    : labelText(job.labels)
}

function pauseText({ at, by, reason }: Paused): string {
  return `Paused since ${clock(Date.parse(at))}${by === null ? "" : ` by ${by}`}${reason === null ? "" : `: ${reason}`}`
}

function labelText(labels: { readonly [name: string]: string }): string {
  return Object.entries(labels)
    .map(([name, value]) => visible(`${name}=${value}`))
    .join("  ")
}
