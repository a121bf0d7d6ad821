/**
 * What needs a person: failures by error, jobs without progress by cause, jobs that wait for a person, dead letters, breakers,
 * dead workers. Empty when all is well.
 *
 * Everything is read again when jobs change, at most every five seconds; without changes waits, workers and dead letters every 90 seconds.
 */
import { useQuery } from "@tanstack/react-query"
import { useEffect, useState } from "react"
import { ask } from "../api/http.ts"
import { useRefetchOnChange } from "../api/jobs-stream.ts"
import { may, type Session } from "../api/session.ts"
import type { Durations } from "../api/types.ts"
import BulkDialog from "../bulk/dialog.tsx"
import { clock, count, counted } from "../model/format.ts"
import type { ExecutionPage } from "../pipeline/page.tsx"
import { Icon } from "../shell/icons.tsx"
import { rowKeys, useKeys } from "../shell/keys.ts"
import { changeQuery, usePlace } from "../shell/router.ts"
import { liveState, Shell } from "../shell/shell.tsx"
import { Failed, Loading, Main, useTitle } from "../shell/states.tsx"
import {
  Approvals,
  approvalsIn,
  DeadLetterList,
  type FailureGroup,
  FailureList,
  type Failures,
  Services,
  servicesIn,
  WaitList,
  type Workers,
} from "./groups.tsx"
import {
  deadQuery,
  failuresQuery,
  hoursAgo,
  isStuck,
  type Range,
  ranges,
  thingsIn,
  type Waits,
  waitsQuery,
  workersQuery,
} from "./needs.ts"

const REFETCH_MS = 5000
/** Three answers: twice a minute in all. */
const IDLE_MS = 90_000

export default function NowPage({ session }: { session: Session }) {
  const { query } = usePlace()
  const since = query.get("since") ?? ""
  const range: Range = since in ranges ? (since as Range) : "6 h"
  const failures = useQuery(failuresQuery(range))
  const waits = useQuery({ ...waitsQuery, refetchInterval: IDLE_MS })
  const workers = useQuery({ ...workersQuery(may(session, "admin")), refetchInterval: IDLE_MS })
  const lastHour = useQuery({
    queryKey: ["now", "hour"],
    queryFn: ({ signal }) =>
      ask<Durations>("/jobs/durations", { query: { created_from: hoursAgo(1), points: 20 }, signal }),
  })
  const dead = useQuery({ ...deadQuery, refetchInterval: IDLE_MS })
  /** Not part of its group: the group disappears while the dialog shows the progress. */
  const [retried, setRetried] = useState<{ group: FailureGroup; from: string } | null>(null)
  const { lostSince, refresh } = useRefetchOnChange("now", REFETCH_MS, 250)
  useTick()
  useTitle("Now")
  useKeys({ r: refresh, ...rowKeys(".nl") })

  const all = [failures, waits, workers, lastHour, dead]
  const failed = all.find(({ error }) => error !== null)
  const isRead = all.every(({ data }) => data !== undefined)
  const readAt = Math.min(...all.map(({ dataUpdatedAt }) => dataUpdatedAt))
  return (
    <Shell session={session} page="now" connection={liveState(lostSince)}>
      <Main name="now" aria-busy={all.some(({ isFetching }) => isFetching)}>
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
            dead={dead.data!}
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
      </Main>
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
  readonly dead: ExecutionPage
  readonly onRetry: ((group: FailureGroup) => void) | null
  readonly range: Range
  /** false: the newest answer could not be read, so the page must not report that all is well. */
  readonly isKnown: boolean
}

function Needs(props: NeedsProps) {
  const { failures, waits, workers, dead, onRetry, range, isKnown } = props
  const now = Date.now()
  const stuck = waits.groups.filter(group => isStuck(group, now))
  const services = servicesIn(waits, workers)
  const approvals = approvalsIn(waits)
  const things = thingsIn(props, now)
  if (things === 0) return isKnown ? <Healthy {...props} /> : null
  const isLeftEmpty = things === approvals.count
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
            <DeadLetterList page={dead} />
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
  const { live, all } = countWorkers(workers)
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
      <h2>{waits.complete ? "Nothing needs you" : "Nothing found that needs you"}</h2>
      <p className="dim">
        No failure in {range}, no wait beyond its usual time, no job that waits for a person, no dead letter,
        no open breaker, no dead worker.
        {!waits.complete &&
          ` Older jobs than the newest ${count(waits.jobs)} that have not ended were not examined.`}
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

function countWorkers({ workers }: Workers): { readonly live: number; readonly all: number } {
  if (Array.isArray(workers))
    return { live: workers.filter(({ state }) => state === "live").length, all: workers.length }
  const { live, dead, outdated = 0 } = workers as Exclude<Workers["workers"], readonly unknown[]>
  return { live, all: live + dead + outdated }
}
