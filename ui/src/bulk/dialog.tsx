/**
 * One command for many jobs: a dry run with its count first, then the operation with its progress and refusals. The operation is
 * a durable job of its own; closing the dialog does not stop it, *Abort* does.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { useEffect, useRef, useState } from "react"
import { ask } from "../api/http.ts"
import { count, counted, shortId } from "../model/format.ts"
import { Dialog } from "../shell/dialog.tsx"
import { pageHref } from "../shell/router.ts"
import { Failed, Loading } from "../shell/states.tsx"

/** As `filter` of `POST /bulk`. */
export type BulkFilter = Readonly<Record<string, unknown>>
export type BulkVerb = "retry" | "cancel" | "delete"

interface BulkCount {
  readonly count: number
  readonly complete: boolean
  readonly by_status: { readonly [status: string]: number }
}

export interface Operation {
  readonly bulk_id: string
  readonly status: string
  readonly matched: { readonly count: number; readonly complete: boolean }
  readonly processed: number
  readonly done: number
  readonly refused: number
  readonly aborting: boolean
}

const POLL_MS = 700
const MOST_REFUSALS = 20
const ended = new Set(["COMPLETED", "FAILED", "CANCELLED", "EXPIRED", "DELETED"])
const verbs: {
  readonly [verb in BulkVerb]: { readonly label: string; readonly note: string; readonly isDanger?: boolean }
} = {
  retry: { label: "Retry", note: "Nodes that are neither completed nor skipped run again." },
  cancel: {
    label: "Cancel",
    note: "Running attempts are aborted. What is done stays done, and a retry continues from there.",
    isDanger: true,
  },
  delete: {
    label: "Delete",
    note: "They are hidden from lists at once, and removed by retention.",
    isDanger: true,
  },
}

export default function BulkDialog({
  verb,
  what,
  filter,
  onClose,
}: {
  verb: BulkVerb
  what: string
  filter: BulkFilter
  onClose: () => void
}) {
  const [started, setStarted] = useState<Operation | null>(null)
  const [error, setError] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  /** A repeated request starts no second operation. */
  const key = useRef(crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`).current
  const dry = useQuery({
    queryKey: ["bulk", "count", verb, filter],
    queryFn: ({ signal }) =>
      ask<BulkCount>("/bulk", { method: "POST", body: { verb, filter, dry_run: true }, signal }),
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const start = async (reason: string) => {
    setBusy(true)
    setError(null)
    try {
      setStarted(
        await ask<Operation>("/bulk", {
          method: "POST",
          body: { verb, filter, ...(reason === "" ? {} : { reason }) },
          headers: { "idempotency-key": key },
        }),
      )
    } catch (failure) {
      setError((failure as Error).message)
    }
    setBusy(false)
  }
  const { label, note, isDanger = false } = verbs[verb]
  const number = dry.data === undefined ? "" : `${count(dry.data.count)}${dry.data.complete ? "" : "+"}`
  return (
    <Dialog label={`${label} jobs`} className="ask bulk" onClose={onClose}>
      <form
        onSubmit={event => {
          event.preventDefault()
          void start(String(new FormData(event.currentTarget).get("reason") ?? "").trim())
        }}
      >
        <h2>
          {label} {number} {dry.data?.count === 1 ? "job" : "jobs"}
        </h2>
        <p className="small mid break-words">{what}</p>
        {started !== null ? (
          <Progress first={started} onClose={onClose} />
        ) : (
          <>
            {dry.error !== null ? (
              <Failed what="The count" error={dry.error} onRetry={() => void dry.refetch()} />
            ) : dry.data === undefined ? (
              <Loading what="the count" rows={2} />
            ) : (
              <p className="small">
                {dry.data.count === 0
                  ? "No job matches any more."
                  : `${Object.entries(dry.data.by_status)
                      .map(([status, jobs]) => `${count(jobs)} ${status}`)
                      .join(", ")}. ${note} A job that changes before its turn is left as it is.`}
              </p>
            )}
            {verb === "cancel" && (
              <label className="field">
                <span>Reason</span>
                <input className="in" name="reason" maxLength={1000} autoComplete="off" />
              </label>
            )}
            {error !== null && (
              <p className="small t-failed break-words" role="alert">
                {error}
              </p>
            )}
            <div className="row acts">
              <button className="btn" type="button" onClick={onClose}>
                Close
              </button>
              <button
                className={isDanger ? "btn danger" : "btn primary"}
                type="submit"
                disabled={isBusy || dry.data === undefined || dry.data.count === 0}
              >
                {label} {number}
              </button>
            </div>
          </>
        )}
      </form>
    </Dialog>
  )
}

export function Progress({ first, onClose }: { first: Operation; onClose: () => void }) {
  const queries = useQueryClient()
  const [error, setError] = useState<string | null>(null)
  const { bulk_id: id } = first
  const read = useQuery({
    queryKey: ["bulk", id],
    queryFn: ({ signal }) => ask<Operation>(`/bulk/${id}`, { signal }),
    initialData: first,
    refetchInterval: query => (ended.has(query.state.data?.status ?? "") ? false : POLL_MS),
    staleTime: 0,
  })
  const { status, matched, processed, done, refused, aborting } = read.data
  const isOver = ended.has(status)
  useEffect(() => {
    if (!isOver) return
    for (const key of ["now", "jobs"]) void queries.invalidateQueries({ queryKey: [key] })
  }, [isOver, queries])
  const abort = () =>
    ask<Operation>(`/bulk/${id}/abort`, { method: "POST", body: {} })
      .then(() => read.refetch())
      .catch(failure => setError((failure as Error).message))
  return (
    <>
      <progress
        className="bprog"
        max={Math.max(1, matched.count, processed)}
        value={isOver && status === "COMPLETED" ? Math.max(1, matched.count, processed) : processed}
        aria-label="Jobs processed"
      />
      <p className="small" role="status" data-bulk={status}>
        {isOver ? (status === "COMPLETED" ? "Ended" : `Ended: ${status}`) : aborting ? "Aborting" : "Running"}
        : {counted(done, "job")} done, {count(refused)} left as they were, of {count(matched.count)}
        {matched.complete ? "" : " or more"}.{" "}
        <a className="link" href={pageHref(`/jobs/${id}`)}>
          Operation {shortId(id)}
        </a>
      </p>
      {isOver && refused > 0 && <Refusals id={id} />}
      {(error ?? read.error) !== null && (
        <p className="small t-failed break-words" role="alert">
          {error ?? read.error?.message}
        </p>
      )}
      <div className="row acts">
        {!isOver && (
          <button className="btn danger" type="button" disabled={aborting} onClick={() => void abort()}>
            Abort
          </button>
        )}
        <button className="btn primary" type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </>
  )
}

function Refusals({ id }: { id: string }) {
  const { data, error } = useQuery({
    queryKey: ["bulk", id, "refused"],
    queryFn: ({ signal }) =>
      ask<{
        readonly refused: readonly {
          /** null: a tick of a backfill. */
          readonly job_id: string | null
          readonly tick?: string
          readonly code: string
          readonly message: string
        }[]
      }>(`/bulk/${id}/refused`, { query: { limit: MOST_REFUSALS }, signal }),
  })
  if (error !== null) return <p className="small t-failed">The refusals could not be read: {error.message}</p>
  return (
    <ul className="refused small">
      {(data?.refused ?? []).map(({ job_id, tick, code, message }) => (
        <li key={job_id ?? tick}>
          {job_id === null ? (
            <span className="mono">{tick}</span>
          ) : (
            <a className="link mono" href={pageHref(`/jobs/${job_id}`)}>
              {shortId(job_id)}
            </a>
          )}{" "}
          {code} {message}
        </li>
      ))}
    </ul>
  )
}
