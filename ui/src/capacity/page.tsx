/** What the server works with: providers and their slots, workers, engines, and what jobs wait for. */
import { useQuery } from "@tanstack/react-query"
import type { ReactNode } from "react"
import { ask } from "../api/http.ts"
import { useRefetchOnChange } from "../api/jobs-stream.ts"
import { may, type Session } from "../api/session.ts"
import { clock, count } from "../model/format.ts"
import { readWaits } from "../now/needs.ts"
import { Icon } from "../shell/icons.tsx"
import { useKeys } from "../shell/keys.ts"
import { liveState, Shell } from "../shell/shell.tsx"
import { Failed, Loading, Main, useTitle } from "../shell/states.tsx"
import { type Provider, Providers } from "./providers.tsx"
import { Engines, type EnginesAnswer, QueueWaits, Workers, type WorkersAnswer } from "./workers.tsx"

const REFETCH_MS = 5000
/** Four answers: twice a minute in all. */
const IDLE_MS = 120_000

interface Health {
  readonly workers: { readonly live: number; readonly dead: number; readonly outdated?: number }
}

export default function CapacityPage({ session }: { session: Session }) {
  const isAdmin = may(session, "admin")
  const options = { refetchInterval: IDLE_MS }
  const providers = useQuery({
    queryKey: ["capacity", "providers"],
    queryFn: ({ signal }) => ask<{ providers: readonly Provider[] }>("/providers", { signal }),
    enabled: isAdmin,
    ...options,
  })
  const workers = useQuery({
    queryKey: ["capacity", "workers"],
    queryFn: ({ signal }) => ask<WorkersAnswer>("/workers", { signal }),
    enabled: isAdmin,
    ...options,
  })
  const engines = useQuery({
    queryKey: ["capacity", "engines"],
    queryFn: ({ signal }) => ask<EnginesAnswer>("/engines", { signal }),
    enabled: isAdmin,
    ...options,
  })
  const health = useQuery({
    queryKey: ["capacity", "health"],
    queryFn: ({ signal }) => ask<Health>("/health", { signal }),
    enabled: !isAdmin,
    ...options,
  })
  const waits = useQuery({
    queryKey: ["capacity", "waits"],
    queryFn: ({ signal }) => readWaits(signal),
    ...options,
  })
  const { lostSince, refresh } = useRefetchOnChange("capacity", REFETCH_MS)
  useTitle("Capacity")
  useKeys({ r: refresh })
  const readAt = Math.max(waits.dataUpdatedAt, workers.dataUpdatedAt)
  return (
    <Shell session={session} page="capacity" connection={liveState(lostSince)}>
      <Main name="cap">
        <div className="phead">
          <h1>Capacity</h1>
          <span className="dim">{readAt > 0 && `as of ${clock(readAt)}`}</span>
          <span className="sp" />
          {isAdmin && workers.data !== undefined && engines.data !== undefined && (
            <Figures workers={workers.data} engines={engines.data} />
          )}
          <button className="btn hide-s" type="button" title="Refresh  R" onClick={refresh}>
            <Icon name="retry" />
            Refresh
          </button>
        </div>
        {isAdmin ? (
          <>
            <Part what="The providers" title="Providers" query={providers}>
              {({ providers }) => <Providers providers={providers} session={session} />}
            </Part>
            <div className="cgrid">
              <Part what="The workers" title="Workers" query={workers}>
                {answer => <Workers answer={answer} />}
              </Part>
              <Part what="The engines" title="Engines" query={engines}>
                {answer => <Engines answer={answer} />}
              </Part>
            </div>
          </>
        ) : (
          <Part what="The workers" title="Workers" query={health}>
            {({ workers: { live, dead, outdated = 0 } }) => (
              <section className="panel" aria-label="Workers">
                <header>
                  <h2>Workers</h2>
                </header>
                <p className="bnote" data-counts="">
                  <b>{count(live)}</b> live, {count(dead)} dead, {count(outdated)} outdated. Workers, engines
                  and providers serve all owners: they are named to the scope admin.
                </p>
              </section>
            )}
          </Part>
        )}
        <Part what="The waits" title="Queue waits" query={waits}>
          {answer => <QueueWaits waits={answer} />}
        </Part>
      </Main>
    </Shell>
  )
}

interface Read<T> {
  readonly data: T | undefined
  readonly error: unknown
  readonly refetch: () => unknown
}

/** A part that could not be read shows an error; the others are shown as usual. */
function Part<T>({
  what,
  title,
  query,
  children,
}: {
  what: string
  title: string
  query: Read<T>
  children: (data: T) => ReactNode
}) {
  const { data, error, refetch } = query
  return (
    <div className="cpart">
      {error != null && (
        <section className="panel" aria-label={`${title}, not read`}>
          <Failed
            what={what}
            error={error}
            note={
              data === undefined
                ? "This does not mean that there are none."
                : "Below is what was known before."
            }
            onRetry={() => void refetch()}
          />
        </section>
      )}
      {data !== undefined
        ? children(data)
        : error == null && (
            <section className="panel" aria-label={title}>
              <Loading what={title.toLowerCase()} rows={4} />
            </section>
          )}
    </div>
  )
}

function Figures({ workers, engines }: { workers: WorkersAnswer; engines: EnginesAnswer }) {
  const live = workers.workers.filter(({ state }) => state === "live")
  const running = live.reduce((sum, worker) => sum + worker.running, 0)
  const places = live.reduce((sum, worker) => sum + worker.concurrency, 0)
  const owned = engines.partitions - engines.unowned.length
  const figures: (readonly [string, string])[] = [
    [
      "Engines",
      `${count(engines.engines.filter(({ state }) => state === "live").length)} of ${count(engines.engines.length)}`,
    ],
    ["Partitions", `${count(owned)} of ${count(engines.partitions)} owned`],
    ["Attempts", `${count(running)} of ${count(places)}`],
  ]
  return (
    <dl className="jfacts hide-s">
      {figures.map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  )
}
