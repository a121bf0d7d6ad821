/** Jobs for past ticks: a dry run counts them first, then a bulk operation starts them. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { useState } from "react"
import { ask } from "../api/http.ts"
import { type Operation, Progress } from "../bulk/dialog.tsx"
import { count } from "../model/format.ts"
import { Dialog } from "../shell/dialog.tsx"
import { Failed, Loading } from "../shell/states.tsx"
import {
  fieldTime,
  lastTime,
  parseLocalTime,
  type Schedule,
  schedulePath,
  shownZone,
  zonedText,
} from "./model.ts"

const DAY_MS = 86_400_000
const USUAL_RATE = 100

interface BackfillCount {
  readonly workflow: string
  readonly count: number
  readonly first_tick: string | null
  readonly last_tick: string | null
}

export default function BackfillDialog({ schedule, onClose }: { schedule: Schedule; onClose: () => void }) {
  const queries = useQueryClient()
  const zone = shownZone(schedule)
  const [range, setRange] = useState(() => {
    const now = Date.now()
    return { from: fieldTime(now - 7 * DAY_MS, zone), to: fieldTime(now, zone) }
  })
  const [rate, setRate] = useState("")
  const [started, setStarted] = useState<Operation | null>(null)
  const [error, setError] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const [key] = useState(() => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`)
  const [from, to] = [parseLocalTime(range.from, zone), parseLocalTime(range.to, zone)]
  const isComplete = from !== undefined && to !== undefined
  const body = isComplete ? { from, to } : null
  const path = `${schedulePath(schedule.name)}/backfill`
  const dry = useQuery({
    queryKey: ["schedules", "backfill", schedule.name, body],
    queryFn: ({ signal }) =>
      ask<BackfillCount>(path, { method: "POST", body: { ...body, dry_run: true }, signal }),
    enabled: body !== null && started === null,
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  })
  const start = async () => {
    setBusy(true)
    setError(null)
    try {
      const wanted = { ...body, ...(rate === "" ? {} : { rate: Number(rate) }) }
      const headers = { "idempotency-key": key }
      setStarted(await ask<Operation>(path, { method: "POST", body: wanted, headers }))
      void queries.invalidateQueries({ queryKey: ["schedules"] })
    } catch (failure) {
      setError((failure as Error).message)
    }
    setBusy(false)
  }
  const found = dry.data
  const close = () => {
    void queries.invalidateQueries({ queryKey: ["schedules"] })
    onClose()
  }
  return (
    <Dialog label="Backfill" className="ask bulk" onClose={close}>
      <form
        onSubmit={event => {
          event.preventDefault()
          void start()
        }}
      >
        <h2>Backfill {schedule.name}</h2>
        {started !== null ? (
          <Progress first={started} onClose={close} />
        ) : (
          <>
            <p className="small mid">
              Starts a job for each past tick of a time range, regardless of running jobs and of what the tick
              did, with the schedule as it is now.
            </p>
            <div className="lims">
              {(["from", "to"] as const).map(side => (
                <label key={side} className="field">
                  <span>
                    {side === "from" ? "From" : "Before"} <span className="dim">{zone}</span>
                  </span>
                  <input
                    className="in"
                    type="datetime-local"
                    name={side}
                    value={range[side]}
                    max={lastTime}
                    required
                    onChange={({ target }) => setRange({ ...range, [side]: target.value })}
                  />
                </label>
              ))}
              <label className="field">
                <span>Jobs per second</span>
                <input
                  className="in"
                  type="number"
                  name="rate"
                  min="0.01"
                  step="any"
                  value={rate}
                  placeholder={String(USUAL_RATE)}
                  onChange={({ target }) => setRate(target.value)}
                />
              </label>
            </div>
            {!isComplete ? (
              <p className="small dim">Give both times.</p>
            ) : dry.error !== null ? (
              <Failed what="The dry run" error={dry.error} onRetry={() => void dry.refetch()} />
            ) : found === undefined ? (
              <Loading what="the ticks" rows={2} />
            ) : (
              <p className="small" role="status" data-dry={found.count}>
                {found.count === 0
                  ? "This time has no tick."
                  : `Dry run: ${count(found.count)} ${found.count === 1 ? "tick" : "ticks"} of ${found.workflow}, the first ${zonedText(Date.parse(found.first_tick!), zone)}, the last ${zonedText(Date.parse(found.last_tick!), zone)}.`}
              </p>
            )}
            {error !== null && (
              <p className="small t-failed break-words" role="alert">
                {error}
              </p>
            )}
            <div className="row acts">
              <button className="btn" type="button" onClick={close}>
                Close
              </button>
              <button
                className="btn primary"
                type="submit"
                disabled={isBusy || found === undefined || found.count === 0 || dry.error !== null}
              >
                Start {found === undefined ? "" : count(found.count)} {found?.count === 1 ? "job" : "jobs"}
              </button>
            </div>
          </>
        )}
      </form>
    </Dialog>
  )
}
