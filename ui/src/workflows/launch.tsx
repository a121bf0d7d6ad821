/** Starts a job: its input as a form made from the schema, and when, how and under which labels it runs. */
import { useQuery } from "@tanstack/react-query"
import { type FormEvent, useMemo, useRef, useState } from "react"
import type { Json } from "../../../src/core/index.ts"
import { ApiError, ask, buildUrl } from "../api/http.ts"
import { counted, duration } from "../model/format.ts"
import { initialValue, type Schema } from "../schema-form/schema.ts"
import { labelsField, parseLabels, ValueEditor } from "../schema-form/value-editor.tsx"
import { StateMark } from "../shell/icons.tsx"
import { useKeys } from "../shell/keys.ts"
import { go, pageHref } from "../shell/router.ts"
import { copyText, Failed, Loading } from "../shell/states.tsx"
import { statisticsQuery, versionQuery, versionsQuery, type Workflow } from "./types.ts"
import { computeShares, sharesText } from "./weights.ts"

interface Target {
  /** What follows the @; "" is the latest version. */
  readonly reference: string
  readonly label: string
  /** The version whose schema the form uses; for an alias with several versions, the one with the largest share. */
  readonly version: number
}

export function Launch({ workflow }: { workflow: Workflow }) {
  const { name, version: latest, aliases = [] } = workflow
  const versions = useQuery(versionsQuery(name)).data?.versions.map(({ version }) => version) ?? [latest]
  const targets: readonly Target[] = [
    { reference: "", label: `latest, v${latest}`, version: latest },
    ...aliases.map(({ alias, weights }) => {
      const shares = computeShares(weights)
      const [first] = [...shares].sort((a, b) => b[1] - a[1])
      return { reference: alias, label: `${alias}, ${sharesText(shares)}`, version: first![0] }
    }),
    ...versions.map(version => ({ reference: String(version), label: `v${version}`, version })),
  ]
  const [reference, setReference] = useState("")
  const target = targets.find(one => one.reference === reference) ?? targets[0]!
  const stored = useQuery(versionQuery(name, target.version))
  if (stored.data === undefined)
    return (
      <section className="panel">
        {stored.error === null ? (
          <Loading what={`version ${target.version}`} />
        ) : (
          <Failed
            what={`Version ${target.version}`}
            error={stored.error}
            onRetry={() => void stored.refetch()}
          />
        )}
      </section>
    )
  return (
    <LaunchForm
      key={target.version}
      {...{ name, target, targets }}
      schema={stored.data.definition.input ?? null}
      onTarget={setReference}
    />
  )
}

interface LaunchFormProps {
  readonly name: string
  readonly target: Target
  readonly targets: readonly Target[]
  readonly schema: Schema | null
  readonly onTarget: (reference: string) => void
}

function LaunchForm({ name, target, targets, schema, onTarget }: LaunchFormProps) {
  const [input, setInput] = useState<Json | undefined>(() =>
    schema === null ? {} : initialValue(schema, schema),
  )
  const [fault, setFault] = useState<string | null>(null)
  const [error, setError] = useState<Error | null>(null)
  const [isBusy, setBusy] = useState(false)
  const [isCopied, setCopied] = useState(false)
  const [run, setRun] = useState({ start: "now", startAt: "", priority: "", ttl: "", labels: "" })
  const set = (changes: Partial<typeof run>) => setRun({ ...run, ...changes })
  const { data: statistics } = useQuery(statisticsQuery(name, target.version, 7 * 24))
  const took = statistics?.jobs.duration_ms
  const problems = useMemo(() => (error instanceof ApiError ? error.problems : []), [error])
  const ofInput = problems.filter(({ path }) => /^input\b/.test(path))
  const others = problems.filter(({ path }) => !/^input\b/.test(path))
  const body = () => ({
    workflow: target.reference === "" ? name : `${name}@${target.reference}`,
    ...(input === undefined ? {} : { input }),
    ...(run.start === "at" && run.startAt !== "" ? { start_at: new Date(run.startAt).toISOString() } : {}),
    ...(run.priority.trim() === "" ? {} : { priority: Number(run.priority) }),
    ...(run.ttl.trim() === "" ? {} : { ttl_seconds: Number(run.ttl) }),
    labels: parseLabels(run.labels),
  })
  const start = async (event: FormEvent) => {
    event.preventDefault()
    if (fault !== null || isBusy) return
    setBusy(true)
    setError(null)
    try {
      const { job_id } = await ask<{ job_id: string }>("/jobs", { method: "POST", body: body() })
      go(pageHref(`/jobs/${job_id}`))
    } catch (failure) {
      setError(failure as Error)
      setBusy(false)
    }
  }
  // As the button does it: the browser checks the fields first.
  const form = useRef<HTMLFormElement>(null)
  useKeys({ "mod+Enter": () => form.current!.requestSubmit() })
  const copy = async () => {
    const address = new URL(buildUrl("/jobs"), window.location.href).href
    const text = JSON.stringify(body()).replaceAll("'", "'\\''")
    await copyText(`curl -s ${address} -H 'content-type: application/json' -d '${text}'`)
    setCopied(true)
    setTimeout(() => setCopied(false), 1500)
  }
  return (
    <form ref={form} className="wcols launch" onSubmit={event => void start(event)}>
      <section className="panel pad" aria-label="Input">
        <ValueEditor
          label={schema === null ? "Input, without a schema" : `Input, by the schema of v${target.version}`}
          schema={schema}
          value={input}
          problems={ofInput}
          rows={8}
          onChange={(value, nextFault) => {
            setInput(value)
            setFault(nextFault)
          }}
        />
      </section>
      <div className="wcol">
        <section className="panel pad runbox" aria-label="Run">
          <label className="field">
            <span>Version</span>
            <select className="in" value={target.reference} onChange={event => onTarget(event.target.value)}>
              {targets.map(({ reference, label }) => (
                <option key={reference} value={reference}>
                  {label}
                </option>
              ))}
            </select>
          </label>
          <label className="field">
            <span>Start</span>
            <select className="in" value={run.start} onChange={event => set({ start: event.target.value })}>
              <option value="now">Now</option>
              <option value="at">At a time</option>
            </select>
          </label>
          {run.start === "at" && (
            <label className="field">
              <span>Start at</span>
              <input
                className="in"
                type="datetime-local"
                required
                max="9999-12-31T23:59"
                value={run.startAt}
                onChange={event => set({ startAt: event.target.value })}
              />
            </label>
          )}
          <label className="field">
            <span>Priority</span>
            <input
              className="in"
              type="number"
              placeholder="0"
              value={run.priority}
              onChange={event => set({ priority: event.target.value })}
            />
          </label>
          <label className="field">
            <span>Expires after, in seconds</span>
            <input
              className="in"
              type="number"
              min={0.001}
              step="any"
              placeholder="default of the workflow"
              value={run.ttl}
              onChange={event => set({ ttl: event.target.value })}
            />
          </label>
          <label className="field both">
            <span>Labels</span>
            <input
              className="in"
              {...labelsField}
              value={run.labels}
              onChange={event => set({ labels: event.target.value })}
            />
          </label>
          <dl className="stat both">
            <dt>Usually takes</dt>
            <dd>
              {took == null ? (
                <small>no data</small>
              ) : (
                <>
                  {duration(took.p50)} to {duration(took.p90)}
                </>
              )}
            </dd>
            {took != null && (
              <dd className="small dim">
                p50 to p90 of {counted(statistics!.jobs.count, "job")} of v{target.version} in 7 days
              </dd>
            )}
          </dl>
        </section>
        {error !== null && (
          <div className="rnote bad" role="alert">
            <StateMark status="FAILED" />
            <p>
              {ofInput.length > 0 && others.length === 0
                ? `${counted(ofInput.length, "field")} to fix. No job was started.`
                : others.length > 0
                  ? others.map(({ path, message }) => `${path}: ${message}`).join(" ")
                  : error.message}
            </p>
          </div>
        )}
        <div className="row acts">
          <button className="btn" type="button" onClick={() => void copy()}>
            {isCopied ? "Copied" : "Copy as curl"}
          </button>
          <span className="sp" />
          <button
            className="btn primary"
            type="submit"
            disabled={isBusy || fault !== null}
            title="Ctrl Enter"
          >
            Start job
          </button>
        </div>
      </div>
    </form>
  )
}
