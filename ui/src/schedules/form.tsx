/** Makes or changes a schedule. The next ticks are shown while it is typed, in its zone. */
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query"
import { type FormEvent, useEffect, useState } from "react"
import type { Json } from "../../../src/core/index.ts"
import { ApiError, ask } from "../api/http.ts"
import type { Schema } from "../schema-form/schema.ts"
import { labelsField, labelsText, parseLabels, ValueEditor } from "../schema-form/value-editor.tsx"
import { useKeys } from "../shell/keys.ts"
import { changeQuery, go, pageHref } from "../shell/router.ts"
import { Loading } from "../shell/states.tsx"
import { workflowQuery } from "../workflows/types.ts"
import { NextTicks } from "./detail.tsx"
import {
  browserZone,
  fieldTime,
  isZone,
  lastTime,
  parseLocalTime,
  type Schedule,
  type ScheduleDocument,
  schedulePath,
  shownZone,
} from "./model.ts"

/** The pause in typing after which the server is queried. */
const REST_MS = 250

export function NewSchedule() {
  return <ScheduleForm schedule={null} />
}

export function EditSchedule({ schedule }: { schedule: Schedule }) {
  return <ScheduleForm schedule={schedule} />
}

/** What is typed. */
interface Typed {
  readonly name: string
  readonly workflow: string
  readonly by: "cron" | "every"
  readonly cron: string
  readonly every: string
  readonly zone: string
  readonly start: string
  readonly end: string
  readonly overlap: string
  readonly catch_up: string
  readonly catch_up_seconds: string
  readonly jitter_seconds: string
  readonly priority: string
  readonly ttl_seconds: string
  readonly labels: string
}

function toTyped(schedule: Schedule | null): Typed {
  const zone = schedule === null ? browserZone : shownZone(schedule)
  const time = (text: string | undefined) => (text === undefined ? "" : fieldTime(Date.parse(text), zone))
  return {
    name: schedule?.name ?? "",
    workflow: schedule?.workflow ?? "",
    by: schedule?.every === undefined ? "cron" : "every",
    cron: schedule?.cron ?? "0 2 * * *",
    every: schedule?.every ?? "15m",
    zone,
    start: time(schedule?.start),
    end: time(schedule?.end),
    overlap: schedule?.overlap ?? "skip",
    catch_up: schedule?.catch_up ?? "last",
    catch_up_seconds: String(schedule?.catch_up_seconds ?? 86_400),
    jitter_seconds: String(schedule?.jitter_seconds ?? 0),
    priority: schedule?.priority === undefined ? "" : String(schedule.priority),
    ttl_seconds: schedule?.ttl_seconds === undefined ? "" : String(schedule.ttl_seconds),
    labels: labelsText(schedule?.labels),
  }
}

/** The zone of the times in the form. */
function formZone({ by, zone }: Typed): string {
  return by === "cron" && isZone(zone) ? zone : browserZone
}

/** Numbers and times that are not typed are left out; the server reports what is wrong. */
function toDocument(
  typed: Typed,
  input: Json | undefined,
  schedule: Schedule | null,
): Partial<ScheduleDocument> {
  const number = (text: string) => (text.trim() === "" ? undefined : Number(text))
  const before = toTyped(schedule)
  const zone = formZone(typed)
  // A time that was not touched keeps its seconds, which the field does not show.
  const time = (side: "start" | "end") =>
    typed[side] === before[side] && zone === formZone(before)
      ? schedule?.[side]
      : parseLocalTime(typed[side], zone)
  const document = {
    ...(typed.by === "cron"
      ? { cron: typed.cron.trim(), zone: typed.zone.trim() }
      : { every: typed.every.trim() }),
    start: time("start"),
    end: time("end"),
    overlap: typed.overlap,
    catch_up: typed.catch_up,
    catch_up_seconds: number(typed.catch_up_seconds),
    jitter_seconds: number(typed.jitter_seconds),
    priority: number(typed.priority),
    ttl_seconds: number(typed.ttl_seconds),
    labels: parseLabels(typed.labels),
    input,
  }
  return JSON.parse(JSON.stringify(document)) as Partial<ScheduleDocument>
}

const presets: readonly (readonly [string, string])[] = [
  ["Every night at 2", "0 2 * * *"],
  ["Every hour", "0 * * * *"],
  ["Every 15 minutes", "*/15 * * * *"],
  ["Workdays at 8", "0 8 * * mon-fri"],
  ["First of the month", "0 0 1 * *"],
]

function ScheduleForm({ schedule }: { schedule: Schedule | null }) {
  const queries = useQueryClient()
  const [typed, setTyped] = useState(() => toTyped(schedule))
  const [input, setInput] = useState<Json | undefined>(schedule?.input)
  const [fault, setFault] = useState<string | null>(null)
  const [error, setError] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const set = (change: Partial<Typed>) => setTyped({ ...typed, ...change })
  const of = (name: Exclude<keyof Typed, "by">) => ({
    value: typed[name],
    onValue: (value: string) => set({ [name]: value }),
  })
  const document = toDocument(typed, input, schedule)
  const { schema, ...preview } = useAnswers(document, typed.workflow)
  const back = () => (schedule === null ? go(pageHref("/schedules")) : changeQuery({ edit: null }))
  useKeys({ Escape: back })
  const save = async (event: FormEvent) => {
    event.preventDefault()
    if (fault !== null) return setError(`The input is not a value: ${fault}`)
    setBusy(true)
    setError(null)
    try {
      const name = typed.name.trim()
      if (schedule === null && (await exists(name)))
        throw new Error(`There is a schedule ${name} already. Give this one another name, or edit that one.`)
      const body = { ...document, workflow: typed.workflow.trim() }
      await ask(schedulePath(name), { method: "PUT", body })
      void queries.invalidateQueries({ queryKey: ["schedules"] })
      go(pageHref(`/schedules/${name}`))
    } catch (failure) {
      setError((failure as Error).message)
      setBusy(false)
    }
  }
  const zone = formZone(typed)
  return (
    <>
      <div className="phead">
        <a className="link" href={pageHref("/schedules")}>
          Schedules
        </a>
        <span className="dim" aria-hidden="true">
          /
        </span>
        <h1>{schedule === null ? "New schedule" : `Edit ${schedule.name}`}</h1>
      </div>
      <form className="sgrid2" onSubmit={event => void save(event)}>
        <div className="ncol">
          <section className="panel sform2" aria-labelledby="swhat">
            <header>
              <h2 id="swhat">What</h2>
            </header>
            <div className="lims spad">
              <Text
                {...of("name")}
                label="Name"
                isRequired
                isMono
                isDisabled={schedule !== null}
                placeholder="nightly"
              />
              <WorkflowField {...of("workflow")} />
            </div>
            <div className="spad top0">
              <ValueEditor
                key={schema === null ? "json" : "form"}
                label="Input"
                schema={schema}
                value={input}
                placeholder='{ "day": "{{ schedule.time }}" }'
                onChange={(value, next) => {
                  setInput(value)
                  setFault(next)
                }}
              />
              <p className="help small dim">
                Templates may read <code>schedule.time</code> and <code>schedule.name</code>.
              </p>
            </div>
          </section>
          <section className="panel sform2" aria-labelledby="swhen">
            <header>
              <h2 id="swhen">When</h2>
              <span className="sp" />
              <fieldset className="seg" aria-label="Times by">
                {(["cron", "every"] as const).map(by => (
                  <button key={by} type="button" aria-pressed={typed.by === by} onClick={() => set({ by })}>
                    {by === "cron" ? "Cron" : "Every"}
                  </button>
                ))}
              </fieldset>
            </header>
            <div className="lims spad">
              {typed.by === "cron" ? (
                <>
                  <Text
                    {...of("cron")}
                    label="Cron: minute hour day month weekday"
                    isRequired
                    isMono
                    error={preview.error}
                  />
                  <Text {...of("zone")} label="Time zone" list="zones" isRequired />
                  <datalist id="zones">
                    {Intl.supportedValuesOf("timeZone").map(one => (
                      <option key={one} value={one} />
                    ))}
                  </datalist>
                  <p className="presets">
                    {presets.map(([label, cron]) => (
                      <button key={cron} className="btn sm" type="button" onClick={() => set({ cron })}>
                        {label}
                      </button>
                    ))}
                  </p>
                </>
              ) : (
                <Text
                  {...of("every")}
                  label="Every (elapsed time)"
                  isRequired
                  isMono
                  placeholder="30s, 15m, 6h, 1d"
                  error={preview.error}
                />
              )}
              <Text {...of("start")} type="datetime-local" max={lastTime} label={`From, ${zone}`} />
              <Text {...of("end")} type="datetime-local" max={lastTime} label={`Until, ${zone}`} />
            </div>
          </section>
          <section className="panel sform2" aria-labelledby="show">
            <header>
              <h2 id="show">How</h2>
            </header>
            <div className="lims spad">
              <Choice
                {...of("overlap")}
                label="While the last job runs"
                choices={[
                  ["skip", "skip the tick"],
                  ["allow", "start another job"],
                  ["queue_one", "let one tick wait"],
                  ["cancel_running", "cancel it first"],
                ]}
              />
              <Choice
                {...of("catch_up")}
                label="Ticks that were missed"
                choices={[
                  ["last", "start the last one"],
                  ["all", "start all"],
                  ["none", "leave them out"],
                ]}
              />
              <Text
                {...of("catch_up_seconds")}
                type="number"
                label="Missed ticks fire up to, seconds later"
                least={60}
              />
              <Text {...of("jitter_seconds")} type="number" label="Jitter, seconds" least={0} />
              <Text {...of("priority")} type="number" label="Priority" />
              <Text {...of("ttl_seconds")} type="number" label="Time to live, seconds" least={1} />
              <Text {...of("labels")} label="Labels" {...labelsField} />
            </div>
          </section>
          {error !== null && (
            <p className="t-failed break-words" role="alert">
              {error}
            </p>
          )}
          <div className="row acts">
            <button className="btn" type="button" onClick={back}>
              Close
            </button>
            <button className="btn primary" type="submit" disabled={isBusy || preview.error !== null}>
              {schedule === null ? "Create the schedule" : "Save the schedule"}
            </button>
          </div>
        </div>
        <div className="ncol sticky" aria-live="polite" aria-busy={preview.isFetching}>
          {preview.error !== null ? (
            <section className="panel" aria-labelledby="snext">
              <header>
                <h2 id="snext">Next ticks</h2>
              </header>
              <p className="spad small t-failed break-words">{preview.error}</p>
            </section>
          ) : preview.ticks === undefined ? (
            <section className="panel">
              <Loading what="the next ticks" rows={6} />
            </section>
          ) : (
            <NextTicks ticks={preview.ticks} zone={zone} />
          )}
        </div>
      </form>
    </>
  )
}

/** What the server reports about the schedule: the next ticks, or why its times are invalid, and problems of the workflow. */
function useAnswers(document: Partial<ScheduleDocument>, workflow: string) {
  const text = JSON.stringify([{ ...document, input: undefined }, workflow])
  const [asked, setAsked] = useState(text)
  const [body, reference] = JSON.parse(asked) as [Partial<ScheduleDocument>, string]
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text), REST_MS)
    return () => clearTimeout(timer)
  }, [text])
  const { data, error, isFetching } = useQuery({
    queryKey: ["schedules", "preview", body],
    queryFn: ({ signal }) =>
      ask<{ readonly next_ticks: readonly string[] }>("/schedules/preview", { method: "POST", body, signal }),
    placeholderData: keepPreviousData,
    retry: false,
  })
  return {
    schema: useInputSchema(reference),
    ticks: data?.next_ticks,
    error: error === null ? null : error.message,
    isFetching: isFetching || text !== asked,
  }
}

/** What is stored under this name would be replaced. */
async function exists(name: string): Promise<boolean> {
  try {
    await ask(schedulePath(name))
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return false
    throw error
  }
}

/** Of the workflow's latest version; null: there is none, or no such workflow. */
function useInputSchema(workflow: string): Schema | null {
  const name = workflow.split("@")[0]!.trim()
  const { data } = useQuery({ ...workflowQuery(name), enabled: name !== "", retry: false })
  return data?.definition.input ?? null
}

function WorkflowField({ value, onValue }: { value: string; onValue: (value: string) => void }) {
  const { data } = useQuery({
    queryKey: ["workflows", "names"],
    queryFn: async ({ signal }) =>
      (
        await ask<{ readonly workflows: readonly { readonly name: string }[] }>("/workflows", {
          query: { limit: 200 },
          signal,
        })
      ).workflows.map(({ name }) => name),
  })
  return (
    <>
      <Text
        label="Workflow"
        value={value}
        onValue={onValue}
        list="workflows"
        isRequired
        isMono
        placeholder="report, report@3"
      />
      <datalist id="workflows">
        {(data ?? []).map(name => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  )
}

interface TextProps {
  readonly label: string
  readonly value: string
  readonly onValue: (value: string) => void
  readonly type?: "text" | "number" | "datetime-local"
  readonly least?: number
  readonly isRequired?: boolean
  readonly isMono?: boolean
  readonly isDisabled?: boolean
  readonly placeholder?: string
  readonly pattern?: string
  readonly title?: string
  readonly max?: string
  readonly list?: string
  readonly error?: string | null
}

function Text({ label, onValue, least, isRequired, isMono, isDisabled, error = null, ...rest }: TextProps) {
  return (
    <label className="field">
      <span>{label}</span>
      <input
        {...rest}
        className={`in${isMono ? " mono" : ""}${error === null ? "" : " bad"}`}
        min={least}
        required={isRequired}
        disabled={isDisabled}
        autoComplete="off"
        spellCheck={false}
        aria-invalid={error !== null}
        onChange={({ target }) => onValue(target.value)}
      />
    </label>
  )
}

function Choice({
  label,
  value,
  choices,
  onValue,
}: {
  label: string
  value: string
  choices: readonly (readonly [string, string])[]
  onValue: (value: string) => void
}) {
  return (
    <label className="field">
      <span>{label}</span>
      <select className="in" value={value} onChange={({ target }) => onValue(target.value)}>
        {choices.map(([name, text]) => (
          <option key={name} value={name}>
            {text}
          </option>
        ))}
      </select>
    </label>
  )
}
