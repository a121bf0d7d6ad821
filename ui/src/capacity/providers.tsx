/** Providers: one cell for a slot, shaded by holder; waiting jobs, the rate, and the latest webhooks. */
import { useQuery } from "@tanstack/react-query"
import { ask } from "../api/http.ts"
import type { Session } from "../api/session.ts"
import { clock, count, counted, elapsed, shortId, timeAgo } from "../model/format.ts"
import { StateMark, type Status } from "../shell/icons.tsx"
import { changeQuery, pageHref, usePlace } from "../shell/router.ts"
import { Empty, Failed, Loading } from "../shell/states.tsx"

interface Holder {
  readonly job_id: string
  readonly owner: string
  readonly granted_at: string
}

export interface Provider {
  readonly name: string
  readonly slots: {
    readonly limit: number | null
    readonly held: readonly Holder[]
    readonly waiting: number
    readonly oldest_asked_at: string | null
  }
  readonly rate: { readonly limit: number | null; readonly pace: number }
  readonly operations: number
  readonly recent_errors: readonly {
    readonly at: string
    readonly what: string
    readonly code: string
    readonly message: string
  }[]
}

interface Webhook {
  readonly event_id: string | null
  readonly external_id: string | null
  readonly received_at: string
  readonly verdict: "parked" | "delivered" | "late" | "refused"
  readonly reason: string | null
  readonly bytes: number
}

export function Providers({ providers, session }: { providers: readonly Provider[]; session: Session }) {
  const { query } = usePlace()
  if (providers.length === 0)
    return (
      <section className="panel" aria-label="Providers">
        <Empty title="No provider is defined">
          <p>A provider is an external service that finishes work out of band.</p>
        </Empty>
      </section>
    )
  const name = query.get("provider") ?? providers[0]!.name
  return (
    <>
      <ul className="provs" aria-label="Providers">
        {providers.map(provider => (
          <li key={provider.name} className="panel" data-provider={provider.name}>
            <Card provider={provider} session={session} isShown={provider.name === name} />
          </li>
        ))}
      </ul>
      <Webhooks key={name} provider={name} />
    </>
  )
}

const MOST_CELLS = 60
const SHOWN_HOLDERS = 3

interface Held {
  readonly job_id: string
  readonly owner: string
  readonly slots: number
}

/** By job, most slots first. */
function groupHolders(held: readonly Holder[]): readonly Held[] {
  const found = new Map<string, Held>()
  for (const { job_id, owner } of held)
    found.set(job_id, { job_id, owner, slots: (found.get(job_id)?.slots ?? 0) + 1 })
  return [...found.values()].sort((a, b) => b.slots - a.slots)
}

function Card({ provider, session, isShown }: { provider: Provider; session: Session; isShown: boolean }) {
  const { name, slots, rate, operations, recent_errors } = provider
  const holders = groupHolders(slots.held)
  const isFull = slots.limit !== null && slots.held.length >= slots.limit
  const [error] = recent_errors
  const others = holders.slice(SHOWN_HOLDERS)
  const otherSlots = others.reduce((sum, { slots }) => sum + slots, 0)
  return (
    <>
      <div className="pvh">
        <div className="row">
          <b className="trunc">{name}</b>
          <span className="small dim">provider</span>
          <span className="sp" />
          {isFull && <span className="tagc full">full</span>}
          <span>
            <b>{count(slots.held.length)}</b>{" "}
            {slots.limit === null ? "held, no limit" : `of ${count(slots.limit)}`}
          </span>
        </div>
        <Cells held={slots.held.length} limit={slots.limit} holders={holders} />
        <ul className="hold small">
          {holders.slice(0, SHOWN_HOLDERS).map(({ job_id, owner, slots }, place) => (
            <li key={job_id}>
              <i data-h={place} aria-hidden="true" />
              {session.owner === null || owner === session.owner ? (
                <a className="link mono" href={pageHref(`/jobs/${job_id}`)}>
                  {shortId(job_id)}
                </a>
              ) : (
                <>
                  <span className="mono">{shortId(job_id)}</span>
                  <span className="tagc">{owner}</span>
                </>
              )}
              <span className="sp" />
              <b>{count(slots)}</b>
            </li>
          ))}
          {others.length > 0 && (
            <li>
              <i data-h="rest" aria-hidden="true" />
              {counted(others.length, "other job")}
              <span className="sp" />
              <b>{count(otherSlots)}</b>
            </li>
          )}
        </ul>
      </div>
      <dl className="kv pvk">
        <dt>Waiting</dt>
        <dd>
          {slots.waiting === 0 ? (
            <span className="dim">none</span>
          ) : (
            <>
              <b>{count(slots.waiting)}</b>
              {slots.oldest_asked_at !== null &&
                `, the first for ${elapsed(Date.now() - Date.parse(slots.oldest_asked_at))}`}
            </>
          )}
        </dd>
        <dt>Rate</dt>
        <dd>
          {rate.limit === null ? (
            <span className="dim">no limit</span>
          ) : (
            `${Number((rate.limit * rate.pace).toPrecision(3))} of ${rate.limit} / s`
          )}
        </dd>
        <dt>Operations</dt>
        <dd>{count(operations)} unfinished</dd>
        <dt>Last error</dt>
        <dd className={error === undefined ? "dim" : undefined}>
          {error === undefined ? (
            "none"
          ) : (
            <span title={timeAgo(Date.parse(error.at))}>
              <span className="mono t-failed">{error.code}</span> {error.what}: {error.message}
            </span>
          )}
        </dd>
      </dl>
      <div className="bfoot">
        <button
          className="btn sm"
          type="button"
          aria-pressed={isShown}
          onClick={() => changeQuery({ provider: name }, { replace: true })}
        >
          Webhooks
        </button>
      </div>
    </>
  )
}

/** Above 60 slots one bar represents all of them. */
function Cells({ held, limit, holders }: { held: number; limit: number | null; holders: readonly Held[] }) {
  if (limit === null || limit > MOST_CELLS)
    return (
      <div className="cells" aria-hidden="true">
        <span className="bar wide">
          <i data-h="0" style={{ flex: held }} />
          <i
            data-h="free"
            style={{ flex: limit === null ? (held === 0 ? 1 : 0) : Math.max(0, limit - held) }}
          />
        </span>
      </div>
    )
  const shades = holders.flatMap(({ slots }, place) =>
    Array.from({ length: slots }, () => (place < SHOWN_HOLDERS ? String(place) : "rest")),
  )
  return (
    <div className="cells" aria-hidden="true">
      {Array.from({ length: limit }, (_, n) => (
        <i key={n} data-h={shades[n] ?? "free"} />
      ))}
    </div>
  )
}

const verdicts: { readonly [verdict in Webhook["verdict"]]: readonly [Status, string] } = {
  delivered: ["COMPLETED", "delivered"],
  parked: ["QUEUED", "parked: its operation is not known yet"],
  late: ["WAITING", "late: the operation had ended"],
  refused: ["FAILED", "refused"],
}

const SHOWN_WEBHOOKS = 20

function Webhooks({ provider }: { provider: string }) {
  const { query } = usePlace()
  const isRefused = query.get("refused") === "1"
  const { data, error, refetch } = useQuery({
    queryKey: ["capacity", "webhooks", provider],
    queryFn: ({ signal }) =>
      ask<{ webhooks: readonly Webhook[] }>(`/providers/${encodeURIComponent(provider)}/webhooks`, {
        signal,
      }),
  })
  const all = data?.webhooks ?? []
  const shown = isRefused ? all.filter(({ verdict }) => verdict === "refused") : all
  const counts = (["delivered", "parked", "late", "refused"] as const)
    .map(verdict => [verdict, all.filter(one => one.verdict === verdict).length] as const)
    .filter(([, number]) => number > 0)
  return (
    <section className="panel" aria-label={`Webhooks of ${provider}`} data-webhooks={provider}>
      <header>
        <h2>Webhooks of {provider}</h2>
        <span className="small dim trunc">
          {all.length === 0
            ? ""
            : `last ${count(all.length)}: ${counts.map(([verdict, number]) => `${count(number)} ${verdict}`).join(", ")}`}
        </span>
        <span className="sp" />
        {all.length > 0 && (
          <fieldset className="seg" aria-label="Which webhooks">
            <button
              type="button"
              aria-pressed={!isRefused}
              onClick={() => changeQuery({ refused: null }, { replace: true })}
            >
              All
            </button>
            <button
              type="button"
              aria-pressed={isRefused}
              onClick={() => changeQuery({ refused: "1" }, { replace: true })}
            >
              Refused
            </button>
          </fieldset>
        )}
      </header>
      {error !== null && data === undefined ? (
        <Failed what="The webhooks" error={error} onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <Loading what="the webhooks" rows={3} />
      ) : shown.length === 0 ? (
        <Empty title={isRefused ? "No webhook was refused" : "No webhook was received"} />
      ) : (
        <ul className="hooks">
          {shown.slice(0, SHOWN_WEBHOOKS).map((webhook, place) => {
            const [status, text] = verdicts[webhook.verdict]
            return (
              <li key={place} data-verdict={webhook.verdict}>
                <span className="dim nowrap" title={timeAgo(Date.parse(webhook.received_at))}>
                  {clock(Date.parse(webhook.received_at))}
                </span>
                <span className="st">
                  <StateMark status={status} />
                  {webhook.verdict}
                </span>
                <span className="mono trunc" title={webhook.event_id ?? undefined}>
                  {webhook.event_id ?? webhook.external_id ?? "no event id"}
                </span>
                <span className="wrap">{webhook.reason ?? (text === webhook.verdict ? "" : text)}</span>
              </li>
            )
          })}
          {shown.length > SHOWN_WEBHOOKS && (
            <li className="small dim">{count(shown.length - SHOWN_WEBHOOKS)} earlier ones are not shown.</li>
          )}
        </ul>
      )}
    </section>
  )
}
