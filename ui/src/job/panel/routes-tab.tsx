/**
 * The routes of a pipeline at the moment that is shown: what each has done and has before it. The messages of a pipeline are
 * no facts, so the newest moment is read again: every two seconds while its figures change, then more and more rarely.
 */
import { useQuery } from "@tanstack/react-query"
import { useRef } from "react"
import { count, duration } from "../../model/format.ts"
import { routeState } from "../../model/route-words.ts"
import type { JobSource, Route, Routes } from "../../model/source.ts"
import type { Moment } from "../../model/timeline.ts"
import { StateMark } from "../../shell/icons.tsx"
import { Empty, Failed, Loading } from "../../shell/states.tsx"
import { endedJobs, useIsSettled } from "./settled.ts"

const FIRST_MS = 2000
const LONGEST_MS = 60_000

export const routesHandler = "routes"

export function RoutesTab({ source, moment }: { source: JobSource; moment: Moment }) {
  const hasEnded = endedJobs.has(moment.view.status)
  const { data, error, refetch } = useRoutes(source, moment, hasEnded)
  if (source.routes === null)
    return (
      <Empty title="This file has no routes">
        <p>Messages of a pipeline are not events, and are not part of a replay file.</p>
      </Empty>
    )
  if (error !== null && data === undefined)
    return <Failed what="The routes" error={error} onRetry={() => void refetch()} />
  if (data === undefined) return <Loading what="the routes" rows={4} />
  if (data.routes === null)
    return (
      <Empty title="Not recorded for this moment">
        <p>The pipeline had not begun, has too many messages to count, or they are not kept any more.</p>
      </Empty>
    )
  const { routes, dead_letters: dead } = data
  return (
    <>
      <ul className="routes">
        {routes.map(route => (
          <RouteRow key={route.name} route={route} hasEnded={hasEnded} />
        ))}
      </ul>
      {dead !== null && dead.count > 0 && (
        <p className="small">
          {count(dead.count)} {dead.count === 1 ? "message has" : "messages have"} failed permanently.
          {dead.first !== null && (
            <>
              {" "}
              The first is <span className="mono">{dead.first.message}</span>:{" "}
              <b className="t-failed">{dead.first.error.code}</b> {dead.first.error.message}
            </>
          )}
        </p>
      )}
      {!moment.isLive && (
        <p className="small dim">Messages in flight, rates and breakers of a past moment are not recorded.</p>
      )}
    </>
  )
}

export function useRoutes(source: JobSource, moment: Moment, hasEnded: boolean) {
  const isNow = moment.isLive
  const pace = useRef({ ms: FIRST_MS, figures: "" })
  const place = isNow ? `now ${hasEnded}` : String(moment.seq)
  const isSettled = useIsSettled(place)
  return useQuery({
    queryKey: ["routes", source.jobId, place],
    enabled: source.routes !== null && isSettled,
    queryFn: async ({ signal }): Promise<Routes> => {
      const answer = await source.routes!(isNow ? null : moment.seq, signal)
      const figures = JSON.stringify(answer)
      const isSame = figures === pace.current.figures
      pace.current = { ms: isSame ? Math.min(LONGEST_MS, pace.current.ms * 2) : FIRST_MS, figures }
      return answer
    },
    placeholderData: before => before,
    staleTime: isNow && !hasEnded ? 0 : Number.POSITIVE_INFINITY,
    gcTime: 60_000,
    refetchInterval: () => (isNow && !hasEnded ? pace.current.ms : false),
    retry: false,
  })
}

function RouteRow({ route, hasEnded }: { route: Route; hasEnded: boolean }) {
  const [status, word] = routeState(route, hasEnded)
  const { queued, in_flight, waiting, done, dead_lettered, failed, rate, latency_ms, concurrency } = route
  const figures: (readonly [string, string])[] = [
    ["done", count(done)],
    ["queued", count(queued)],
    [
      "in flight",
      in_flight === null
        ? "not recorded"
        : `${count(in_flight)}${concurrency === null ? "" : ` of ${count(concurrency)}`}`,
    ],
    ["wait for a retry", count(waiting)],
    ["failed", count(failed)],
    ["dead letters", count(dead_lettered)],
  ]
  return (
    <li data-route={route.name} data-s={word}>
      <div className="row">
        <StateMark status={status} />
        <b className="trunc">{route.name}</b>
        <span className="tagc">{word}</span>
        <span className="sp" />
        {rate !== null && rate > 0 && <span className="tiny dim">{rate.toPrecision(2)} a second</span>}
        {latency_ms !== null && latency_ms > 0 && (
          <span className="tiny dim">{duration(latency_ms)} each</span>
        )}
      </div>
      <p className="tiny dim">
        {route.inbound} → {route.adapters.map(({ type }) => type).join(", ") || "no adapter"}
        {Object.entries(route.outbound).map(
          ([kind, queue]) => ` → ${queue}${kind === "default" ? "" : ` (${kind})`}`,
        )}
      </p>
      {route.adapters
        .filter(({ breaker }) => breaker !== null && breaker !== "closed")
        .map(({ type, breaker }) => (
          <p key={type} className="small t-failed">
            The breaker of {type} is {breaker?.replace("_", " ")}.
          </p>
        ))}
      <dl className="rfig">
        {figures.map(([name, text]) => (
          <div key={name} data-f={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </li>
  )
}
