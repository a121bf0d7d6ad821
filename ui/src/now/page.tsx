/**
 * What needs a person: failures by error, jobs that do not go on by cause, people who are waited for, breakers, workers that are
 * gone. Empty when all is well.
 *
 * Everything is read again when jobs change, at most every five seconds; without changes waits and workers every minute.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { useEffect, useRef, useState } from "react"
import { ask } from "../api/http.ts"
import { followJobs } from "../api/jobs-stream.ts"
import { may, type Session } from "../api/session.ts"
import type { Durations } from "../api/types.ts"
import BulkDialog from "../bulk/dialog.tsx"
import { clock, count, counted } from "../model/format.ts"
import { Icon } from "../shell/icons.tsx"
import { useKeys } from "../shell/keys.ts"
import { changeQuery, usePlace } from "../shell/router.ts"
import { Shell } from "../shell/shell.tsx"
import { Failed, Loading } from "../shell/states.tsx"
import {
  Approvals,
  approvalsIn,
  type FailureGroup,
  FailureList,
  type Failures,
  Services,
  servicesIn,
  WaitList,
  type Workers,
} from "./groups.tsx"
import { isStuck, type Waits } from "./needs.ts"

const NEWS_MS = 5000
const IDLE_MS = 60_000
const HOUR_MS = 3_600_000
const ranges = { "6 h": 6, "24 h": 24, "7 d": 7 * 24 } as const
type Range = keyof typeof ranges

export default function NowPage({ session }: { session: Session }) {
  const { query } = usePlace()
  const since = query.get("since") ?? ""
  const range: Range = since in ranges ? (since as Range) : "6 h"
  const isAdmin = may(session, "admin")
  const failures = useQuery({
    queryKey: ["now", "failures", range],
    queryFn: ({ signal }) => ask<Failures>("/failures", { query: { from: hoursAgo(ranges[range]) }, signal }),
  })
  const waits = useQuery({
    queryKey: ["now", "waits"],
    queryFn: ({ signal }) => ask<Waits>("/waits", { signal }),
    refetchInterval: IDLE_MS,
  })
  const workers = useQuery({
    queryKey: ["now", "workers", isAdmin],
    queryFn: ({ signal }) =>
      isAdmin ? ask<Workers>("/workers", { signal }) : ask<Workers>("/health", { signal }),
    refetchInterval: IDLE_MS,
  })
  const lastHour = useQuery({
    queryKey: ["now", "hour"],
    queryFn: ({ signal }) =>
      ask<Durations>("/jobs/durations", { query: { created_from: hoursAgo(1), points: 20 }, signal }),
  })
  /** Not part of its group: the group leaves while the dialog shows the progress. */
  const [retried, setRetried] = useState<{ group: FailureGroup; from: string } | null>(null)
  const { lostSince, refresh } = useNews()
  useTick()
  useEffect(() => {
    document.title = "Now · Umbra"
  }, [])
  const move = (step: number) => {
    const links = [...document.querySelectorAll<HTMLElement>(".nl")]
    const place = links.indexOf(document.activeElement as HTMLElement)
    links[Math.min(links.length - 1, Math.max(0, place + step))]?.focus()
  }
  useKeys({ r: refresh, j: () => move(1), k: () => move(-1) })

  const all = [failures, waits, workers, lastHour]
  const failed = all.find(({ error }) => error !== null)
  const isRead = all.every(({ data }) => data !== undefined)
  const readAt = Math.min(...all.map(({ dataUpdatedAt }) => dataUpdatedAt))
  return (
    <Shell
      session={session}
      page="now"
      connection={
        lostSince === null
          ? { kind: "live", text: "Live" }
          : { kind: "lost", text: `Not live since ${clock(lostSince)}` }
      }
    >
      <main className="page now" id="main" tabIndex={-1} aria-busy={all.some(({ isFetching }) => isFetching)}>
        <Head range={range} readAt={isRead ? readAt : null} onRefresh={refresh} />
        {failed !== undefined && (
          <section className="panel mb">
            <Failed
              what="What needs a person"
              error={failed.error}
              note={
                isRead
                  ? `Below is what was known at ${clock(readAt)}.`
                  : "This does not mean that nothing needs you."
              }
              onRetry={refresh}
            />
          </section>
        )}
        {isRead ? (
          <Needs
            failures={failures.data!}
            waits={waits.data!}
            workers={workers.data!}
            lastHour={lastHour.data!}
            onRetry={
              may(session, "manage") ? group => setRetried({ group, from: failures.data!.from }) : null
            }
            range={range}
            isKnown={failed === undefined}
          />
        ) : (
          failed === undefined && (
            <section className="panel">
              <Loading what="what needs a person" rows={8} />
            </section>
          )
        )}
      </main>
      {retried !== null && (
        <BulkDialog
          verb="retry"
          what={`${retried.group.code} ${retried.group.message}`}
          filter={{
            status: ["FAILED"],
            fingerprint: retried.group.fingerprint,
            workflow: retried.group.workflow,
            created_from: retried.from,
          }}
          onClose={() => setRetried(null)}
        />
      )}
    </Shell>
  )
}

function hoursAgo(hours: number): string {
  return new Date(Date.now() - hours * HOUR_MS).toISOString()
}

/** Reads everything again when jobs change. A burst of changes is one request, at its begin and at its end. */
function useNews() {
  const queries = useQueryClient()
  const [lostSince, setLost] = useState<number | null>(null)
  const refresh = useRef(() => void queries.invalidateQueries({ queryKey: ["now"] })).current
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let last = Date.now()
    const news = () => {
      timer ??= setTimeout(
        () => {
          timer = undefined
          last = Date.now()
          refresh()
        },
        Math.max(250, last + NEWS_MS - Date.now()),
      )
    }
    const stop = followJobs({ onJob: (_, isNews) => isNews && news(), onConnection: setLost })
    return () => {
      stop()
      clearTimeout(timer)
    }
  }, [refresh])
  return { lostSince, refresh }
}

/** Waits grow, and become unusual, while nothing is read. */
function useTick(): void {
  const [, tick] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => document.hidden || tick(n => n + 1), 1000)
    return () => clearInterval(timer)
  }, [])
}

function Head({ range, readAt, onRefresh }: { range: Range; readAt: number | null; onRefresh: () => void }) {
  return (
    <div className="phead">
      <h1>Now</h1>
      <span className="dim">{readAt !== null && `as of ${clock(readAt)}`}</span>
      <span className="sp" />
      <fieldset className="seg" aria-label="Failures of the last">
        {(Object.keys(ranges) as Range[]).map(one => (
          <button
            key={one}
            type="button"
            aria-pressed={one === range}
            onClick={() => changeQuery({ since: one === "6 h" ? null : one })}
          >
            {one}
          </button>
        ))}
      </fieldset>
      <button className="btn hide-s" type="button" title="Refresh  R" onClick={onRefresh}>
        <Icon name="retry" />
        Refresh
      </button>
    </div>
  )
}

interface NeedsProps {
  readonly failures: Failures
  readonly waits: Waits
  readonly workers: Workers
  readonly lastHour: Durations
  readonly onRetry: ((group: FailureGroup) => void) | null
  readonly range: Range
  /** false: the newest answer could not be read, so nothing is called well. */
  readonly isKnown: boolean
}

function Needs(props: NeedsProps) {
  const { failures, waits, workers, onRetry, range, isKnown } = props
  const now = Date.now()
  const stuck = waits.groups.filter(group => isStuck(group, now))
  const services = servicesIn(waits, workers)
  const approvals = approvalsIn(waits)
  const isLeftEmpty = failures.groups.length + stuck.length + services.length === 0
  if (isLeftEmpty && approvals.count === 0) return isKnown ? <Healthy {...props} /> : null
  const things = failures.groups.length + stuck.length + services.length + approvals.count
  return (
    <>
      <p className="answer">
        {things === 1 ? "1 thing needs a person." : `${count(things)} things need a person.`}
      </p>
      {!waits.complete && (
        <p className="small dim mb">
          There are more unfinished jobs: waits are those of the newest {count(waits.jobs)}.
        </p>
      )}
      <div className="ngrid" data-one={isLeftEmpty || approvals.count === 0 || undefined}>
        {!isLeftEmpty && (
          <div className="ncol">
            <FailureList failures={failures} range={range} hours={ranges[range]} onRetry={onRetry} />
            <WaitList groups={stuck} now={now} />
            <Services services={services} />
          </div>
        )}
        {approvals.count > 0 && (
          <div className="ncol">
            <Approvals approvals={approvals} now={now} />
          </div>
        )}
      </div>
    </>
  )
}

function Healthy({ waits, workers, lastHour, failures, range }: NeedsProps) {
  const failedInHour = lastHour.points
    .filter(({ status }) => status === "FAILED")
    .reduce((sum, point) => sum + point.count, 0)
  const { live, all } = liveOf(workers)
  const more = waits.complete ? "" : "+"
  const figures: readonly (readonly [string, string, string])[] = [
    ["Not ended", `${count(waits.jobs)}${more}`, waits.jobs === 1 ? "job" : "jobs"],
    ["With a running node", `${count(waits.running)}${more}`, ""],
    [
      "Submitted in the last hour",
      `${count(lastHour.jobs)}${lastHour.complete ? "" : "+"}`,
      `${count(failedInHour)} failed`,
    ],
    ["Workers", count(live), `of ${count(all)} live`],
  ]
  return (
    <div className="healthy" data-state="healthy">
      <svg viewBox="0 0 48 48" width="48" height="48" aria-hidden="true">
        <circle cx="24" cy="24" r="21" fill="none" stroke="var(--s-completed)" strokeWidth="2" />
        <path
          d="m15.5 24.5 6 6 11.5-12.5"
          fill="none"
          stroke="var(--s-completed)"
          strokeWidth="2.4"
          strokeLinecap="round"
          strokeLinejoin="round"
        />
      </svg>
      <h2>Nothing needs you</h2>
      <p className="dim">
        No failure in {range}, no wait beyond its usual time, nobody is waited for, no open breaker, no worker
        is gone.
      </p>
      <dl className="hs">
        {figures.map(([name, value, note]) => (
          <div key={name} className="stat">
            <dt>{name}</dt>
            <dd>
              {value} <small>{note}</small>
            </dd>
          </div>
        ))}
      </dl>
      {!failures.complete && (
        <p className="small dim">
          The search for failures ended early, after {counted(failures.jobs, "job")}.
        </p>
      )}
    </div>
  )
}

function liveOf({ workers }: Workers): { readonly live: number; readonly all: number } {
  if (Array.isArray(workers))
    return { live: workers.filter(({ state }) => state === "live").length, all: workers.length }
  const { live, dead, outdated = 0 } = workers as Exclude<Workers["workers"], readonly unknown[]>
  return { live, all: live + dead + outdated }
}
