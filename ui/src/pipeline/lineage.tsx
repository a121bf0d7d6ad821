/**
 * The lineage of a message as a graph. A message may have a hundred thousand descendants: the server gives a page of those next
 * to it, and of each further step no more than are drawn.
 */
import { useQuery } from "@tanstack/react-query"
import { type FormEvent, useEffect, useMemo, useRef, useState } from "react"
import { ApiError, ask, jobPath } from "../api/http.ts"
import { ErrorBox } from "../job/panel/error-box.tsx"
import { JsonTree } from "../job/panel/json-tree.tsx"
import { clock, count, counted, duration, shortId } from "../model/format.ts"
import type { JsonValue } from "../model/json/document.ts"
import { family, Icon, StateMark, type Status } from "../shell/icons.tsx"
import { changeQuery, go, pageHref } from "../shell/router.ts"
import { Empty, Failed, Loading } from "../shell/states.tsx"
import {
  HEIGHT,
  type Invocation,
  layoutLineage,
  type Message,
  type PlacedMessage,
  WIDTH,
} from "./lineage-layout.ts"

const NEAR = 8
const STEPS = 3

interface Answer {
  readonly message: Message | null
  readonly inputs: readonly Message[]
  readonly outputs: readonly Message[]
  readonly is_cut: boolean
}

const statuses: { readonly [status in Message["status"]]: Status } = {
  pending: "QUEUED",
  running: "RUNNING",
  completed: "COMPLETED",
  failed: "FAILED",
}

function useSide(
  jobId: string,
  message: string,
  direction: "inputs" | "outputs",
  from: number,
  hasEnded: boolean,
) {
  return useQuery({
    queryKey: ["lineage", jobId, message, direction, from],
    queryFn: ({ signal }) =>
      ask<Answer>(`${jobPath(jobId)}/lineage`, {
        query: { message, direction, from, width: NEAR, depth: STEPS, limit: NEAR * STEPS },
        signal,
      }),
    staleTime: hasEnded ? 60_000 : 0,
    retry: false,
  })
}

interface LineageProps {
  readonly jobId: string
  /** null: there is none to begin with. */
  readonly message: string | null
  readonly hasEnded: boolean
}

export function Lineage({ jobId, message, hasEnded }: LineageProps) {
  return (
    <section className="panel lin" aria-label="Lineage">
      <header>
        <Icon name="pipeline" />
        <h2>Lineage</h2>
        <Find key={message} message={message ?? ""} />
      </header>
      {message === null ? (
        <Empty title="No message yet" />
      ) : (
        <Around key={`${jobId} ${message}`} jobId={jobId} message={message} hasEnded={hasEnded} />
      )}
    </section>
  )
}

function Find({ message }: { message: string }) {
  const find = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const wanted = String(new FormData(event.currentTarget).get("message")).trim()
    if (wanted !== "") changeQuery({ message: wanted })
  }
  return (
    <form className="row linf" onSubmit={find}>
      <label className="row">
        <span className="sr">Message, as ROUTE:NUMBER</span>
        <input
          className="in mono"
          name="message"
          defaultValue={message}
          placeholder="route:12"
          spellCheck={false}
        />
      </label>
      <button className="btn sm" type="submit">
        Show
      </button>
    </form>
  )
}

function Around({ jobId, message, hasEnded }: { jobId: string; message: string; hasEnded: boolean }) {
  const [back, setBack] = useState(0)
  const [ahead, setAhead] = useState(0)
  const up = useSide(jobId, message, "inputs", back, hasEnded)
  const down = useSide(jobId, message, "outputs", ahead, hasEnded)
  const failed = up.error ?? down.error
  const start = down.data?.message ?? up.data?.message ?? null
  const layout = useMemo(
    () => (start === null ? null : layoutLineage(start, up.data?.inputs ?? [], down.data?.outputs ?? [])),
    [start, up.data, down.data],
  )
  if (failed !== null && layout === null)
    return failed instanceof ApiError && failed.status === 404 ? (
      <Empty title={`No message ${message}`}>
        <p>{failed.message}</p>
      </Empty>
    ) : (
      <Failed
        what="The lineage"
        error={failed}
        onRetry={() => {
          void up.refetch()
          void down.refetch()
        }}
      />
    )
  if (up.isPending || down.isPending) return layout === null ? <Loading what="the lineage" rows={4} /> : null
  if (layout === null || start === null)
    return (
      <Empty title={`No message ${message} yet`}>
        <p>The job has not ended, and may still get it.</p>
      </Empty>
    )
  const outputs = start.invocations.reduce((sum, { emitted }) => sum + emitted, 0)
  const nearBack = layout.messages.filter(({ column }) => column === -1).length
  const nearAhead = layout.messages.filter(({ column }) => column === 1).length
  return (
    <>
      <div className="row linp">
        <Pager
          what="comes from"
          from={back}
          shown={nearBack}
          total={null}
          hasMore={up.data?.is_cut === true && nearBack === NEAR}
          onFrom={setBack}
        />
        <span className="sp" />
        <Pager
          what="what came of it"
          from={ahead}
          shown={nearAhead}
          total={outputs === 0 ? null : outputs}
          hasMore={down.data?.is_cut === true && ahead + nearAhead < outputs}
          onFrom={setAhead}
        />
      </div>
      <Graph layout={layout} jobId={jobId} />
      <About message={start} jobId={jobId} />
    </>
  )
}

interface PagerProps {
  readonly what: string
  readonly from: number
  readonly shown: number
  /** null: not known. */
  readonly total: number | null
  readonly hasMore: boolean
  readonly onFrom: (from: number) => void
}

function Pager({ what, from, shown, total, hasMore, onFrom }: PagerProps) {
  const isPaged = from > 0 || hasMore
  return (
    <span className="row small dim" data-pager={what}>
      {what}
      {isPaged && (
        <>
          <button
            className="btn sm icon-only"
            type="button"
            aria-label={`${what}: previous`}
            disabled={from === 0}
            onClick={() => onFrom(Math.max(0, from - NEAR))}
          >
            <Icon name="back" />
          </button>
          <span className="nowrap">
            {shown === 0 ? "none" : `${count(from + 1)} to ${count(from + shown)}`}
            {total === null ? "" : ` of ${count(total)}`}
          </span>
          <button
            className="btn sm icon-only"
            type="button"
            aria-label={`${what}: next`}
            disabled={!hasMore}
            onClick={() => onFrom(from + NEAR)}
          >
            <Icon name="right" />
          </button>
          {total !== null && total > 4 * NEAR && (
            <button
              className="btn sm"
              type="button"
              disabled={!hasMore}
              onClick={() => onFrom(Math.floor((total - 1) / NEAR) * NEAR)}
            >
              Last
            </button>
          )}
        </>
      )}
    </span>
  )
}

function Graph({ layout, jobId }: { layout: ReturnType<typeof layoutLineage>; jobId: string }) {
  const view = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const element = view.current!
    element.scrollLeft = layout.centre - element.clientWidth / 2
  }, [layout.centre])
  const show = ({ message }: PlacedMessage) => {
    if (message.job_id === jobId) changeQuery({ message: message.id })
    else go(pageHref(`/jobs/${message.job_id}`, { message: message.id }))
  }
  const step = (from: PlacedMessage, key: string): boolean => {
    const dx = { ArrowRight: 1, ArrowLeft: -1 }[key] ?? 0
    const dy = { ArrowDown: 1, ArrowUp: -1 }[key] ?? 0
    if (dx === 0 && dy === 0) return false
    const found = layout.messages
      .filter(({ column, y }) =>
        dx === 0 ? column === from.column && Math.sign(y - from.y) === dy : column === from.column + dx,
      )
      .sort((a, b) => Math.abs(a.y - from.y) - Math.abs(b.y - from.y))[0]
    if (found !== undefined)
      view.current!.querySelector<HTMLElement>(`[data-key="${CSS.escape(found.key)}"]`)?.focus()
    return true
  }
  return (
    <div ref={view} className="lincan">
      <div style={{ width: layout.width, height: layout.height }}>
        <svg className="edges" width={layout.width} height={layout.height} aria-hidden="true">
          <path d={layout.path} />
        </svg>
        {layout.messages.map(placed => {
          const { message, column, x, y, key } = placed
          const status = statuses[message.status]
          return (
            <button
              key={key}
              className="lmsg"
              type="button"
              data-key={key}
              data-message={message.id}
              data-column={column}
              data-s={family(status)}
              aria-current={column === 0}
              style={{ left: x, top: y, width: WIDTH, height: HEIGHT }}
              onClick={() => show(placed)}
              onKeyDown={event => {
                if (!step(placed, event.key)) return
                event.preventDefault()
                event.stopPropagation()
              }}
            >
              <span className="row">
                <StateMark status={status} small />
                <span className="mono trunc">{message.id}</span>
                <span className="sr">, {message.status},</span>
              </span>
              <span className="tiny dim trunc">
                {message.job_id === jobId ? about(message) : `job ${shortId(message.job_id)}`}
              </span>
            </button>
          )
        })}
      </div>
    </div>
  )
}

function about({ invocations, status, gathered }: Message): string {
  const emitted = invocations.reduce((sum, call) => sum + call.emitted, 0)
  const error = invocations.findLast(call => call.error !== null)?.error
  if (status === "failed") return error?.code ?? "failed"
  if (gathered.length > 0) return `with ${counted(gathered.length, "message")}`
  return emitted === 0 ? (invocations.at(-1)?.adapter ?? status) : counted(emitted, "message")
}

const SHOWN_CALLS = 6

/** The message itself: its calls and its body. */
function About({ message, jobId }: { message: Message; jobId: string }) {
  const { replay_of, replayed_by, invocations } = message
  const failed = invocations.findLast(({ error }) => error !== null)
  return (
    <div className="dlb">
      <div className="row">
        <StateMark status={statuses[message.status]} />
        <b className="mono">{message.id}</b>
        <span className="small dim">
          {message.status}, queued at {clock(Date.parse(message.at))}
        </span>
      </div>
      {[["Replays", replay_of] as const, ["Replayed by", replayed_by] as const].map(([word, link]) =>
        link === null ? null : (
          <p key={word} className="small">
            {word}{" "}
            <a className="link mono" href={pageHref(`/jobs/${link.job_id}`, { message: link.message })}>
              {link.message} of job {shortId(link.job_id)}
            </a>
          </p>
        ),
      )}
      <ul className="calls small">
        {invocations.slice(-SHOWN_CALLS).map((call, place) => (
          <li key={place}>
            <Call call={call} />
          </li>
        ))}
        {invocations.length > SHOWN_CALLS && (
          <li className="dim">{counted(invocations.length - SHOWN_CALLS, "earlier call")} not shown.</li>
        )}
        {invocations.length === 0 && <li className="dim">No adapter has processed it.</li>}
      </ul>
      {message.status === "failed" && failed?.error != null && <ErrorBox error={failed.error as never} />}
      {message.body_left_out === true ? (
        <p className="small dim">The body is too large to be shown here.</p>
      ) : (
        <JsonTree source={{ value: message.body as JsonValue }} label={`body of ${message.id} of ${jobId}`} />
      )}
    </div>
  )
}

function Call({ call }: { call: Invocation }) {
  const { adapter, attempt, status, duration_ms, into, emitted } = call
  return (
    <>
      <StateMark status={statuses[status]} small />
      <span className="mono trunc">{adapter}</span>
      <span className="dim">
        {status}
        {into !== null ? `, gathered into ${into}` : `, ${duration(duration_ms)}`}
        {attempt > 1 ? `, attempt ${attempt}` : ""}
        {emitted > 0 ? `, ${counted(emitted, "message")} emitted` : ""}
      </span>
    </>
  )
}
