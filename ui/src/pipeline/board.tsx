/** The page of an execution: its routes, its dead letters, and the lineage of a message. */
import { useEffect, useRef, useState } from "react"
import { may, type Session } from "../api/session.ts"
import { RoutesTab, useRoutes } from "../job/panel/routes-tab.tsx"
import { endedJobs } from "../job/panel/settled.ts"
import { count } from "../model/format.ts"
import { pressureStart, rateText } from "../model/route-words.ts"
import type { JobSource, Route } from "../model/source.ts"
import type { Moment } from "../model/timeline.ts"
import { Icon, StateMark } from "../shell/icons.tsx"
import { changeQuery, usePlace } from "../shell/router.ts"
import { Empty, Failed, Loading } from "../shell/states.tsx"
import { DeadLetters } from "./dead-letters.tsx"
import { Flow } from "./flow.tsx"
import { Lineage } from "./lineage.tsx"

export interface BoardProps {
  readonly source: JobSource
  readonly moment: Moment
  readonly session: Session
  readonly isNarrow: boolean
  readonly onDetails: (() => void) | null
}

export default function Board({ source, moment, session, isNarrow, onDetails }: BoardProps) {
  const { query } = usePlace()
  const hasEnded = endedJobs.has(moment.view.status)
  const { data, error, refetch } = useRoutes(source, moment, hasEnded)
  const rates = useRates(moment.isLive ? (data?.routes ?? null) : null)
  const selected = query.get("route")
  const routes = data?.routes ?? null
  const message = query.get("message")
  return (
    <div className="board" data-board={routes === null ? "empty" : "routes"}>
      {routes !== null && (
        <Totals routes={routes} dead={data?.dead_letters?.count ?? null} onDetails={onDetails} />
      )}
      {isNarrow ? (
        <div className="bpad">
          <RoutesTab source={source} moment={moment} />
        </div>
      ) : error !== null && data === undefined ? (
        <Failed what="The routes" error={error} onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <Loading what="the routes" rows={4} />
      ) : routes === null ? (
        <Empty title="Not recorded for this moment">
          <p>The pipeline had not begun, has too many messages to count, or they are not kept any more.</p>
        </Empty>
      ) : (
        <Flow
          routes={routes}
          hasEnded={hasEnded}
          rates={rates}
          selected={selected}
          onSelect={name => changeQuery({ route: name === selected ? null : name }, { replace: true })}
        />
      )}
      {!moment.isLive && (
        <p className="bnote small dim">
          Messages in flight, rates and breakers of a past moment are not recorded. Dead letters and lineage
          are those of now.
        </p>
      )}
      <div className="btwo">
        <DeadLetters
          key={selected}
          jobId={source.jobId}
          route={selected}
          // That of all routes: what a route has left is not known.
          left={selected === null ? (data?.dead_letters?.count ?? null) : null}
          version={`${routes?.reduce((sum, { dead_lettered }) => sum + dead_lettered, 0) ?? 0} ${hasEnded}`}
          canReplay={may(session, "submit")}
          onReplayed={() => void refetch()}
        />
        <Lineage
          jobId={source.jobId}
          message={message ?? firstMessage(routes, selected)}
          hasEnded={hasEnded}
        />
      </div>
    </div>
  )
}

function firstMessage(routes: readonly Route[] | null, selected: string | null): string | null {
  const name = selected ?? routes?.[0]?.name
  return name === undefined ? null : `${name}:1`
}

const SAMPLES = 60

/** The rates that this page has seen, a sample for each answer. */
function useRates(routes: readonly Route[] | null): ReadonlyMap<string, readonly number[]> {
  const seen = useRef(new Map<string, number[]>())
  const [rates, setRates] = useState<ReadonlyMap<string, readonly number[]>>(new Map())
  useEffect(() => {
    if (routes === null) return
    for (const { name, rate } of routes)
      seen.current.set(name, [...(seen.current.get(name) ?? []), rate ?? 0].slice(-SAMPLES))
    setRates(new Map(seen.current))
  }, [routes])
  return rates
}

interface TotalsProps {
  readonly routes: readonly Route[]
  readonly dead: number | null
  readonly onDetails: (() => void) | null
}

function Totals({ routes, dead, onDetails }: TotalsProps) {
  const sum = (field: "done" | "queued" | "waiting") =>
    routes.reduce((total, route) => total + route[field], 0)
  const rate = routes.reduce((total, route) => total + (route.rate ?? 0), 0)
  const start = pressureStart(routes)
  const held = routes.filter(({ held_up_by }) => held_up_by !== null).map(({ name }) => name)
  const figures: (readonly [string, string])[] = [
    ["Messages done", count(sum("done"))],
    ["Queued", count(sum("queued"))],
    ["Waiting for a retry", count(sum("waiting"))],
    ["Rate", `${rateText(rate)} / s`],
    ["Dead letters", dead === null ? "not recorded" : count(dead)],
  ]
  return (
    <div className="btot">
      <dl className="jfacts">
        {figures.map(([name, text]) => (
          <div key={name} data-f={name}>
            <dt>{name}</dt>
            <dd className={name === "Dead letters" && dead !== null && dead > 0 ? "t-failed" : undefined}>
              {text}
            </dd>
          </div>
        ))}
      </dl>
      {start !== null && (
        <p className="jwhy" data-s="waiting">
          <StateMark status="WAITING" small />
          <span>
            &nbsp;<b>{start}</b> blocks {held.join(", ")}: its queue is full
          </span>
        </p>
      )}
      {onDetails !== null && (
        <button className="btn sm" type="button" title="Details of the job  I" onClick={onDetails}>
          <Icon name="info" />
          Details
        </button>
      )}
    </div>
  )
}
