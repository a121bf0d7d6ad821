/** One schedule: what it does, its calendar, its history, and what a person can do with it. */
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query"
import { useState } from "react"
import { ApiError, ask } from "../api/http.ts"
import { may, type Session } from "../api/session.ts"
import { counted, fullTime, shortId } from "../model/format.ts"
import { Ask } from "../shell/dialog.tsx"
import { Icon, type IconName } from "../shell/icons.tsx"
import { useKeys } from "../shell/keys.ts"
import { changeQuery, go, pageHref, usePlace } from "../shell/router.ts"
import { Empty, Failed, Loading, ShowMore } from "../shell/states.tsx"
import BackfillDialog from "./backfill.tsx"
import { Calendar } from "./calendar.tsx"
import { EditSchedule } from "./form.tsx"
import { inText, OutcomeMark, useNow } from "./list.tsx"
import {
  browserZone,
  type Fire,
  haveSeconds,
  outcomes,
  type Schedule,
  schedulePath,
  scheduleQuery,
  shownZone,
  spanText,
  timesText,
  zonedText,
} from "./model.ts"

const REFRESH_MS = 30_000

type Action = "run" | "pause" | "resume" | "delete" | "backfill"

export function ScheduleDetail({ name, session }: { name: string; session: Session }) {
  const { query } = usePlace()
  const read = useQuery({ ...scheduleQuery(name), refetchInterval: REFRESH_MS })
  const { data, error } = read
  if (data === undefined)
    return (
      <div className="panel">
        {error === null ? (
          <Loading what="the schedule" rows={6} />
        ) : error instanceof ApiError && error.status === 404 ? (
          <Empty title={`Schedule ${name} not found`}>
            <p>
              It does not exist, was deleted, or belongs to another owner.{" "}
              <a className="link" href={pageHref("/schedules")}>
                All schedules
              </a>
            </p>
          </Empty>
        ) : (
          <Failed what="The schedule" error={error} onRetry={() => void read.refetch()} />
        )}
      </div>
    )
  if (query.get("edit") !== null && may(session, "manage")) return <EditSchedule schedule={data} />
  return <Shown schedule={data} session={session} />
}

const actionTexts: {
  readonly [name in Exclude<Action, "backfill">]: {
    readonly label: string
    readonly icon: IconName
    readonly title: string
    readonly note: string
    readonly isDanger?: boolean
  }
} = {
  run: {
    label: "Run now",
    icon: "play",
    title: "Start a job now",
    note: "Starts even if a job of the schedule is running or the schedule is paused. Ticks do not wait for this job.",
  },
  pause: {
    label: "Pause",
    icon: "pause",
    title: "Pause the schedule",
    note: "Ticks that are due while it is paused never fire. Its jobs continue.",
  },
  resume: {
    label: "Resume",
    icon: "play",
    title: "Resume the schedule",
    note: "It continues with the next tick from now.",
  },
  delete: {
    label: "Delete",
    icon: "close",
    title: "Delete the schedule",
    note: "With its history. Its jobs stay as they are.",
    isDanger: true,
  },
}

function Shown({ schedule, session }: { schedule: Schedule; session: Session }) {
  const { name, paused_at, next_at } = schedule
  const [action, setAction] = useState<Action | null>(null)
  const now = useNow()
  const canManage = may(session, "manage")
  const pausing = paused_at === null ? "pause" : "resume"
  useKeys({
    p: () => canManage && setAction(pausing),
    e: () => canManage && changeQuery({ edit: "1" }),
    Escape: () => go(pageHref("/schedules")),
  })
  const button = (which: Exclude<Action, "backfill">, key?: string) => (
    <button
      className={actionTexts[which].isDanger ? "btn danger" : "btn"}
      type="button"
      title={`${actionTexts[which].title}${key === undefined ? "" : `  ${key}`}`}
      onClick={() => setAction(which)}
    >
      <Icon name={actionTexts[which].icon} />
      {actionTexts[which].label}
    </button>
  )
  return (
    <>
      <div className="phead shead">
        <a className="link" href={pageHref("/schedules")}>
          Schedules
        </a>
        <span className="dim" aria-hidden="true">
          /
        </span>
        <h1 className="trunc">{name}</h1>
        {paused_at !== null ? (
          <span className="pill" data-s="waiting" title={`since ${fullTime(Date.parse(paused_at))}`}>
            <Icon name="pause" small />
            PAUSED
          </span>
        ) : (
          <span className="dim hide-s">
            {next_at === null
              ? schedule.problem === undefined
                ? "It never fires again."
                : `It does not fire: ${schedule.problem}`
              : `Next: ${zonedText(Date.parse(next_at), shownZone(schedule))}, ${inText(Date.parse(next_at), now)}`}
          </span>
        )}
        <span className="sp" />
        <div className="acts">
          {may(session, "submit") && button("run")}
          {canManage && (
            <>
              {button(pausing, "P")}
              <button className="btn" type="button" onClick={() => setAction("backfill")}>
                <Icon name="retry" />
                Backfill
              </button>
              <button
                className="btn"
                type="button"
                title="Edit  E"
                onClick={() => changeQuery({ edit: "1" })}
              >
                <Icon name="pencil" />
                Edit
              </button>
              {button("delete")}
            </>
          )}
        </div>
      </div>
      <div className="sgrid2">
        <div className="ncol">
          <Calendar schedule={schedule} />
          <History name={name} zone={shownZone(schedule)} />
        </div>
        <div className="ncol">
          <Facts schedule={schedule} />
          <NextTicks ticks={schedule.next_ticks} zone={shownZone(schedule)} isPaused={paused_at !== null} />
        </div>
      </div>
      {action === "backfill" ? (
        <BackfillDialog schedule={schedule} onClose={() => setAction(null)} />
      ) : (
        action !== null && <ActionDialog {...{ name, action }} onClose={() => setAction(null)} />
      )}
    </>
  )
}

function ActionDialog({
  name,
  action,
  onClose,
}: {
  name: string
  action: Exclude<Action, "backfill">
  onClose: () => void
}) {
  const queries = useQueryClient()
  const [error, setError] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const [job, setJob] = useState<string | null>(null)
  const { title, label, note, isDanger = false } = actionTexts[action]
  const act = async () => {
    setBusy(true)
    setError(null)
    try {
      const answer = await ask<{ readonly job_id?: string } | null>(
        action === "delete" ? schedulePath(name) : `${schedulePath(name)}/${action}`,
        { method: action === "delete" ? "DELETE" : "POST" },
      )
      if (action === "delete") {
        queries.removeQueries({ queryKey: ["schedules", "one", name] })
        go(pageHref("/schedules"))
      }
      void queries.invalidateQueries({ queryKey: ["schedules"] })
      if (action !== "run") return onClose()
      setJob(answer?.job_id ?? null)
    } catch (failure) {
      setError((failure as Error).message)
    }
    setBusy(false)
  }
  return (
    <Ask
      title={job === null ? title : "The job was started"}
      action={job === null ? label : "Open the job"}
      isDanger={isDanger}
      isBusy={isBusy}
      error={error}
      onClose={onClose}
      onSubmit={() => (job === null ? void act() : go(pageHref(`/jobs/${job}`)))}
    >
      <p className="small mid">
        {job === null ? (
          note
        ) : (
          <>
            Job{" "}
            <a className="link mono" href={pageHref(`/jobs/${job}`)}>
              {shortId(job)}
            </a>
          </>
        )}
      </p>
    </Ask>
  )
}

const overlaps: { readonly [overlap: string]: string } = {
  skip: "the tick is skipped",
  allow: "both run",
  queue_one: "one tick waits for its end",
  cancel_running: "it is cancelled first",
}

function Facts({ schedule }: { schedule: Schedule }) {
  const { workflow, overlap, catch_up, catch_up_seconds, jitter_seconds, start, end, labels, input } =
    schedule
  const pairs: (readonly [string, string])[] = [
    ["When", timesText(schedule)],
    ["While the last job runs", overlaps[overlap] ?? overlap],
    [
      "Ticks that were missed",
      catch_up === "none"
        ? "are left out"
        : `${catch_up === "last" ? "the last one starts" : "all start"}, up to ${spanText(catch_up_seconds * 1000)} later`,
    ],
    ...(jitter_seconds > 0 ? [["Jitter", `up to ${spanText(jitter_seconds * 1000)}`] as const] : []),
    ...(start === undefined ? [] : [["From", zonedText(Date.parse(start), shownZone(schedule))] as const]),
    ...(end === undefined ? [] : [["Until", zonedText(Date.parse(end), shownZone(schedule))] as const]),
    ...(schedule.priority === undefined ? [] : [["Priority", String(schedule.priority)] as const]),
    ...(schedule.ttl_seconds === undefined
      ? []
      : [["Time to live", spanText(schedule.ttl_seconds * 1000)] as const]),
    ...Object.entries(labels ?? {}).map(([key, value]) => [`Label ${key}`, value] as const),
  ]
  return (
    <section className="panel" aria-labelledby="sfacts">
      <header>
        <h2 id="sfacts">Schedule</h2>
      </header>
      <dl className="kv spad">
        <dt>Workflow</dt>
        <dd>
          <a className="link" href={pageHref("/jobs", { workflow: workflow.split("@")[0]! })}>
            {workflow}
          </a>
        </dd>
        {pairs.map(([name, text]) => (
          <Pair key={name} {...{ name, text }} />
        ))}
        {schedule.queued_tick !== null && (
          <Pair name="Queued tick" text={zonedText(Date.parse(schedule.queued_tick), shownZone(schedule))} />
        )}
        {schedule.last_job !== null && (
          <>
            <dt>Latest job</dt>
            <dd>
              <a className="link mono" href={pageHref(`/jobs/${schedule.last_job}`)}>
                {shortId(schedule.last_job)}
              </a>
            </dd>
          </>
        )}
      </dl>
      {input !== undefined && (
        <div className="smar">
          <h3>Input</h3>
          <pre className="inset code wrap">{JSON.stringify(input, null, 2)}</pre>
        </div>
      )}
    </section>
  )
}

function Pair({ name, text }: { name: string; text: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{text}</dd>
    </>
  )
}

export function NextTicks({
  ticks,
  zone,
  isPaused = false,
}: {
  ticks: readonly string[]
  zone: string
  isPaused?: boolean
}) {
  return (
    <section className="panel" aria-labelledby="snext">
      <header>
        <h2 id="snext">{isPaused ? "Ticks that it would have" : "Next ticks"}</h2>
        <span className="dim small">{zone}</span>
      </header>
      {ticks.length === 0 ? (
        <p className="none">There is none.</p>
      ) : (
        <ol className="ticks20">
          {ticks.map(tick => (
            <li key={tick} data-tick={tick} title={fullTime(Date.parse(tick))}>
              <span>{zonedText(Date.parse(tick), zone, haveSeconds(ticks))}</span>
              {zone !== browserZone && (
                <span className="dim">
                  {zonedText(Date.parse(tick), browserZone, haveSeconds(ticks))} here
                </span>
              )}
            </li>
          ))}
        </ol>
      )}
    </section>
  )
}

interface FirePage {
  readonly fires: readonly Fire[]
  readonly next: string | null
}

const kinds = { tick: "", run: "run now", backfill: "backfill" }

function History({ name, zone }: { name: string; zone: string }) {
  const read = useInfiniteQuery({
    queryKey: ["schedules", "fires", name],
    queryFn: ({ signal, pageParam }) =>
      ask<FirePage>(`${schedulePath(name)}/fires`, { query: { before: pageParam, limit: 25 }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    staleTime: 0,
    refetchInterval: REFRESH_MS,
  })
  const fires = read.data?.pages.flatMap(page => page.fires) ?? []
  return (
    <section className="panel" aria-labelledby="shist">
      <header>
        <h2 id="shist">What its ticks did</h2>
        <span className="dim small hide-s">newest first</span>
      </header>
      {read.error !== null && fires.length === 0 ? (
        <Failed what="The history" error={read.error} onRetry={() => void read.refetch()} />
      ) : read.data === undefined ? (
        <Loading what="the history" rows={4} />
      ) : fires.length === 0 ? (
        <p className="none">No tick yet.</p>
      ) : (
        <table className="tbl fires">
          <thead>
            <tr>
              <th>Tick</th>
              <th>Outcome</th>
              <th>Job</th>
              <th>Reason</th>
            </tr>
          </thead>
          <tbody>
            {fires.map(fire => (
              <tr key={`${fire.tick} ${fire.kind} ${fire.at}`} data-outcome={fire.outcome}>
                <td className="k1" title={fullTime(Date.parse(fire.tick))}>
                  {zonedText(Date.parse(fire.tick), zone, haveSeconds(fires.map(({ tick }) => tick)))}
                </td>
                <td className="k2">
                  <span className="st">
                    <OutcomeMark outcome={fire.outcome} />
                    {outcomes[fire.outcome].text}
                    {fire.count > 1 && ` ${counted(fire.count, "tick")}`}
                  </span>
                </td>
                <td className="k3">
                  {fire.job_id === null ? (
                    ""
                  ) : (
                    <a className="link mono" href={pageHref(`/jobs/${fire.job_id}`)}>
                      {shortId(fire.job_id)}
                    </a>
                  )}
                </td>
                <td className="k4 dim small">{[kinds[fire.kind], fire.reason].filter(Boolean).join(", ")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <ShowMore read={read} />
    </section>
  )
}
