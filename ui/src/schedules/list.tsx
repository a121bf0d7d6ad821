/** All schedules by name: when they fire next, and what their last ticks did. */
import { useInfiniteQuery } from "@tanstack/react-query"
import { useEffect, useState } from "react"
import { ask } from "../api/http.ts"
import { may, type Session } from "../api/session.ts"
import { elapsed, fullTime } from "../model/format.ts"
import { Icon, StateMark } from "../shell/icons.tsx"
import { rowKeys, useKeys } from "../shell/keys.ts"
import { go, pageHref } from "../shell/router.ts"
import { Empty, Failed, Loading, ShowMore } from "../shell/states.tsx"
import { type Fire, outcomes, type ScheduleSummary, shownZone, timesText, zonedText } from "./model.ts"

const PAGE = 50
const FIRES = 8
const REFRESH_MS = 30_000

interface SchedulePage {
  readonly schedules: readonly ScheduleSummary[]
  readonly next: string | null
}

export function ScheduleList({ session }: { session: Session }) {
  const read = useInfiniteQuery({
    queryKey: ["schedules", "list"],
    queryFn: ({ signal, pageParam }) =>
      ask<SchedulePage>("/schedules", { query: { after: pageParam, limit: PAGE, fires: FIRES }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    staleTime: 0,
    refetchInterval: REFRESH_MS,
  })
  const now = useNow()
  const schedules = read.data?.pages.flatMap(page => page.schedules) ?? []
  const canManage = may(session, "manage")
  useKeys({
    ...rowKeys(".scht a.cn"),
    r: () => void read.refetch(),
    n: () => canManage && go(pageHref("/schedules", { new: "1" })),
  })
  const paused = schedules.filter(one => one.paused_at !== null).length
  return (
    <>
      <div className="phead">
        <h1>Schedules</h1>
        {schedules.length > 0 && (
          <span className="dim hide-s">
            {answer(schedules, now)}
            {paused === 0 ? "" : ` ${paused} paused.`}
          </span>
        )}
        <span className="sp" />
        {canManage && (
          <a className="btn primary" href={pageHref("/schedules", { new: "1" })} title="New schedule  N">
            <Icon name="plus" />
            New schedule
          </a>
        )}
      </div>
      <section className="panel" aria-label="All schedules" aria-busy={read.isFetching}>
        {read.error !== null && schedules.length === 0 ? (
          <Failed what="The schedules" error={read.error} onRetry={() => void read.refetch()} />
        ) : read.data === undefined ? (
          <Loading what="the schedules" rows={6} />
        ) : schedules.length === 0 ? (
          <Empty title="No schedule yet">
            <p>
              A schedule starts a job of a workflow at times: every night, every 15 minutes.
              {canManage && " Make one here, or with umbra schedule create."}
            </p>
          </Empty>
        ) : (
          <table className="tbl scht">
            <thead>
              <tr>
                <th>Schedule</th>
                <th>Workflow</th>
                <th>When</th>
                <th>Next</th>
                <th>Last outcomes, newest at the right</th>
              </tr>
            </thead>
            <tbody>
              {schedules.map(schedule => (
                <Row key={schedule.name} schedule={schedule} now={now} />
              ))}
            </tbody>
          </table>
        )}
        {read.error !== null && schedules.length > 0 && (
          <p className="small t-failed spad" role="alert">
            The schedules could not be read again: {read.error.message}
          </p>
        )}
        <ShowMore read={read} />
      </section>
    </>
  )
}

/** Once a second is enough for "in 5 min 02 s". */
export function useNow(): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [])
  return now
}

function answer(schedules: readonly ScheduleSummary[], now: number): string {
  const [first] = schedules
    .filter(({ next_at }) => next_at !== null)
    .toSorted((a, b) => Date.parse(a.next_at!) - Date.parse(b.next_at!))
  return first === undefined
    ? "None of them fires again."
    : `${first.name} fires next, ${inText(Date.parse(first.next_at!), now)}.`
}

export function inText(at: number, now: number): string {
  return at <= now ? "now" : `in ${elapsed(at - now)}`
}

function Row({ schedule, now }: { schedule: ScheduleSummary; now: number }) {
  const { name, workflow, next_at, paused_at, fires = [] } = schedule
  return (
    <tr data-schedule={name}>
      <td className="k1">
        <a className="cn" href={pageHref(`/schedules/${name}`)}>
          {name}
        </a>
      </td>
      <td className="k2 trunc" title={workflow}>
        {workflow}
      </td>
      <td className="k3 mono trunc" title={timesText(schedule)}>
        {timesText(schedule)}
      </td>
      <td className="k4">
        <NextTick {...{ schedule, next_at, paused_at, now }} />
      </td>
      <td className="k5">
        <Outcomes fires={fires} />
      </td>
    </tr>
  )
}

function NextTick({
  schedule,
  next_at,
  paused_at,
  now,
}: Pick<ScheduleSummary, "next_at" | "paused_at"> & { schedule: ScheduleSummary; now: number }) {
  if (paused_at !== null)
    return (
      <span className="st" data-s="waiting">
        <Icon name="pause" small />
        paused
      </span>
    )
  if (schedule.problem !== undefined)
    return (
      <span className="t-failed trunc" title={schedule.problem}>
        does not fire
      </span>
    )
  if (next_at === null) return <span className="dim">never again</span>
  const at = Date.parse(next_at)
  return (
    <span title={fullTime(at)}>
      {zonedText(at, shownZone(schedule))} <span className="dim">{inText(at, now)}</span>
    </span>
  )
}

function Outcomes({ fires }: { fires: readonly Fire[] }) {
  if (fires.length === 0) return <span className="dim small">none yet</span>
  return (
    <ol className="outs">
      {fires.toReversed().map(fire => (
        <li key={`${fire.tick} ${fire.kind} ${fire.at}`} title={fireText(fire)}>
          <OutcomeMark outcome={fire.outcome} />
          <span className="sr">{fireText(fire)}</span>
        </li>
      ))}
    </ol>
  )
}

export function OutcomeMark({ outcome }: { outcome: Fire["outcome"] }) {
  const { icon, status } = outcomes[outcome]
  return icon === undefined ? <StateMark status={status!} /> : <Icon name={icon} small />
}

function fireText({ tick, outcome, reason, count }: Fire): string {
  const times = count > 1 ? ` ${count} times` : ""
  return `${fullTime(Date.parse(tick))}: ${outcomes[outcome].text}${times}${reason === null ? "" : `, ${reason}`}`
}
