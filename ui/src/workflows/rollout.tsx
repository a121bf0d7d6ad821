/**
 * An alias: how jobs are shared among versions, and how those versions perform since it was moved. Counts are read when jobs
 * change, at most every two seconds.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { useEffect, useState } from "react"
import { type Asked, ask } from "../api/http.ts"
import { followJobs } from "../api/jobs-stream.ts"
import type { Durations } from "../api/types.ts"
import { clock, count, duration, timeAgo } from "../model/format.ts"
import { Ask } from "../shell/dialog.tsx"
import { Icon, StateMark } from "../shell/icons.tsx"
import { percent, Rate } from "./rate.tsx"
import {
  type Alias,
  statisticsQuery,
  versionsQuery,
  type Workflow,
  workflowPath,
  workflowQuery,
} from "./types.ts"
import { computeShares, failsMore, type Shares, sharesText, withShare } from "./weights.ts"

const NEWS_MS = 2000
const HOURS = 24
const MOST_VERSIONS = 6

interface Since {
  readonly jobs: number
  readonly failed: number
  readonly ended: number
  /** false: more jobs than these; they are a sample. */
  readonly complete: boolean
}

export function Rollout({
  workflow,
  alias,
  canManage,
}: {
  workflow: Workflow
  alias: Alias
  canManage: boolean
}) {
  const { name } = workflow
  const { alias: label, moved_at: movedAt, moved_by: by } = alias
  const queries = useQueryClient()
  const current = computeShares(alias.weights)
  const [draft, setDraft] = useState<Shares | null>(null)
  const [error, setError] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const [isRemoving, setRemoving] = useState(false)
  const shares = draft ?? current
  const versions = useQuery(versionsQuery(name)).data?.versions.map(({ version }) => version) ?? []
  const history = useQuery({
    queryKey: ["workflow", name, "history", label, movedAt],
    queryFn: ({ signal }) =>
      ask<{ moves: readonly { from: Record<string, number> | null }[] }>(
        `${workflowPath(name)}/aliases/${encodeURIComponent(label)}/history`,
        { signal },
      ),
  })
  const before = history.data?.moves[0]?.from ?? null
  const since = useSince(
    name,
    [...shares.keys()].slice(0, MOST_VERSIONS),
    Math.max(Date.parse(movedAt), Date.now() - HOURS * 3_600_000),
    movedAt,
  )
  const send = async (asked: Asked) => {
    setBusy(true)
    setError(null)
    try {
      await ask(`${workflowPath(name)}/aliases/${encodeURIComponent(label)}`, asked)
      setRemoving(false)
      await queries.invalidateQueries({ queryKey: workflowQuery(name).queryKey })
      setDraft(null)
    } catch (failure) {
      setError((failure as Error).message)
    } finally {
      setBusy(false)
    }
  }
  const move = (next: Shares) => send({ method: "PUT", body: { weights: Object.fromEntries(next) } })
  const worse = findWorse(current, since)
  const others = versions.filter(version => !shares.has(version))
  return (
    <section className="panel rollout" aria-label={`Alias ${label}`} data-alias={label}>
      <header className="wrap">
        <h2>{label}</h2>
        <span className="dim small" title={timeAgo(Date.parse(movedAt))}>
          alias · moved by {by} at {clock(Date.parse(movedAt))}
          {before !== null && `, from ${sharesText(computeShares(before))}`}
        </span>
        <span className="sp" />
        {canManage && before !== null && (
          <button
            className="btn sm"
            type="button"
            disabled={isBusy}
            title={`Back to ${sharesText(computeShares(before))}`}
            onClick={() => void move(computeShares(before))}
          >
            <Icon name="retry" />
            Roll back
          </button>
        )}
        {canManage && (
          <button className="btn ghost sm" type="button" onClick={() => setRemoving(true)}>
            Remove<span className="sr"> alias {label}</span>
          </button>
        )}
      </header>
      <table className="tbl rtbl">
        <thead>
          <tr>
            <th>Version</th>
            <th>Share of jobs</th>
            <th className="num">Jobs since</th>
            <th>Failure rate</th>
            <th className="num">p95</th>
          </tr>
        </thead>
        <tbody>
          {[...shares].map(([version, share]) => (
            <VersionRow
              key={version}
              {...{ name, version, share }}
              since={since.get(version)}
              onShare={
                canManage && shares.size > 1 ? next => setDraft(withShare(shares, version, next)) : null
              }
            />
          ))}
        </tbody>
      </table>
      {canManage && (others.length > 0 || draft !== null) && (
        <div className="rfoot">
          {others.length > 0 && (
            <label className="vsel">
              <span className="dim">Add</span>
              <select
                className="in"
                aria-label={`Add a version to ${label}`}
                value=""
                onChange={event => setDraft(new Map(shares).set(Number(event.target.value), 0))}
              >
                <option value="" disabled>
                  version
                </option>
                {others.map(version => (
                  <option key={version} value={version}>
                    v{version}
                  </option>
                ))}
              </select>
            </label>
          )}
          <span className="sp" />
          {draft !== null && (
            <>
              <button className="btn sm" type="button" onClick={() => setDraft(null)}>
                Undo
              </button>
              <button
                className="btn sm primary"
                type="button"
                disabled={isBusy}
                onClick={() => void move(draft)}
              >
                Move {label} to {sharesText(draft)}
              </button>
            </>
          )}
        </div>
      )}
      {error !== null && !isRemoving && (
        <p className="rnote t-failed" role="alert">
          {error}
        </p>
      )}
      {worse !== null && draft === null && (
        <div className="rnote bad" role="status">
          <StateMark status="FAILED" />
          <p>
            <b>
              v{worse.version} fails more than v{worse.than}
            </b>{" "}
            ({count(worse.failed)} of {count(worse.ended)} against {count(worse.thanFailed)} of{" "}
            {count(worse.thanEnded)}). Jobs that run keep their version.
          </p>
          {canManage && (
            <button
              className="btn sm"
              type="button"
              disabled={isBusy}
              onClick={() => void move(withShare(current, worse.version, 0))}
            >
              Set v{worse.version} to 0 %
            </button>
          )}
        </div>
      )}
      {isRemoving && (
        <Ask
          title={`Remove alias ${label}`}
          action="Remove the alias"
          isDanger
          isBusy={isBusy}
          error={error}
          onClose={() => setRemoving(false)}
          onSubmit={() => void send({ method: "DELETE" })}
        >
          <p>
            {name}@{label} is then not known. Running jobs keep their version, and its history is kept.
          </p>
        </Ask>
      )}
    </section>
  )
}

function VersionRow({
  name,
  version,
  share,
  since,
  onShare,
}: {
  name: string
  version: number
  share: number
  since: Since | undefined
  onShare: ((share: number) => void) | null
}) {
  const { data } = useQuery(statisticsQuery(name, version, HOURS))
  const rate = since === undefined || since.ended === 0 ? null : since.failed / since.ended
  const p95 = data?.jobs.duration_ms?.p95
  return (
    <tr data-version={version}>
      <td className="med">v{version}</td>
      <td>
        <span className="share">
          {onShare !== null && (
            <input
              type="range"
              min={0}
              max={100}
              step={1}
              value={share}
              aria-label={`Share of v${version}`}
              aria-valuetext={`${share} percent`}
              onChange={event => onShare(Number(event.target.value))}
            />
          )}
          <b>{share} %</b>
        </span>
      </td>
      <td className="num" data-since={since?.jobs}>
        {since === undefined ? "" : `${count(since.jobs)}${since.complete ? "" : "+"}`}
      </td>
      <td>
        {rate === null ? (
          <span className="dim">no data</span>
        ) : (
          <Rate rate={rate} kind="failed" text={percent(rate)} />
        )}
      </td>
      <td className="num">{p95 === undefined ? <span className="dim">no data</span> : duration(p95)}</td>
    </tr>
  )
}

/** Reads the counts of all aliases again when jobs of the workflow change. */
export function useRolloutUpdates(name: string): void {
  const queries = useQueryClient()
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const changed = () => {
      timer ??= setTimeout(() => {
        timer = undefined
        void queries.invalidateQueries({ queryKey: ["rollout", name] })
      }, NEWS_MS)
    }
    const stop = followJobs({
      onJob: (job, isChange) => isChange && job.workflow === name && changed(),
      onConnection: () => {},
    })
    return () => {
      stop()
      clearTimeout(timer)
    }
  }, [queries, name])
}

/** Jobs of these versions that were submitted since the alias was moved. */
function useSince(name: string, versions: readonly number[], from: number, movedAt: string) {
  const list = [...versions].sort((a, b) => a - b)
  const { data } = useQuery({
    queryKey: ["rollout", name, movedAt, list.join()],
    queryFn: async ({ signal }) =>
      new Map(
        await Promise.all(
          list.map(async (version): Promise<[number, Since]> => {
            const query = {
              ...{ workflow: name, version, points: 20 },
              created_from: new Date(from).toISOString(),
            }
            const { points, jobs, complete } = await ask<Durations>("/jobs/durations", { query, signal })
            const sum = (statuses: readonly string[]) =>
              points
                .filter(({ status }) => statuses.includes(status))
                .reduce((total, point) => total + point.count, 0)
            return [version, { jobs, complete, failed: sum(["FAILED"]), ended: sum(["FAILED", "COMPLETED"]) }]
          }),
        ),
      ),
    placeholderData: shown => shown,
  })
  return data ?? new Map<number, Since>()
}

/** A version that fails clearly more often than the one with the largest share. */
function findWorse(shares: Shares, since: ReadonlyMap<number, Since>) {
  const [first, ...rest] = [...shares].sort((a, b) => b[1] - a[1]).map(([version]) => version)
  const usual = first === undefined ? undefined : since.get(first)
  if (usual === undefined) return null
  for (const version of rest) {
    const found = since.get(version)
    if (found === undefined || (shares.get(version) ?? 0) === 0 || !failsMore(found, usual)) continue
    return {
      ...{ version, than: first!, failed: found.failed, ended: found.ended },
      ...{ thanFailed: usual.failed, thanEnded: usual.ended },
    }
  }
  return null
}
