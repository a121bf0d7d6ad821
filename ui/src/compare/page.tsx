/**
 * Two jobs, two moments of one job, or a fork and its origin, node by node: the first divergence on top, then all nodes in
 * the order of the graph, and the values that differ on request. The address has everything: `a`, `b`, `at_a`, `at_b`, `node`, `only`.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { type FormEvent, useEffect } from "react"
import { ask } from "../api/http.ts"
import { followJobs } from "../api/jobs-stream.ts"
import type { Session } from "../api/session.ts"
import { amount, clock, count, duration, shortId, timeAgo, versionText } from "../model/format.ts"
import { Icon, Pill } from "../shell/icons.tsx"
import { rowKeys, useKeys } from "../shell/keys.ts"
import { changeQuery, pageHref, usePlace } from "../shell/router.ts"
import { Shell } from "../shell/shell.tsx"
import { copyText, Failed, Loading, Main, useTitle } from "../shell/states.tsx"
import { type ComparedSide, type Comparison, divergenceText, judgeNode, signed } from "./differences.ts"
import { NodePanel } from "./node-panel.tsx"
import { NodeTable } from "./table.tsx"

const NEWS_MS = 2000
const ended = new Set(["COMPLETED", "FAILED", "CANCELLED", "EXPIRED", "DELETED"])

export default function ComparePage({ session }: { session: Session }) {
  const { query } = usePlace()
  const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""]
  const moments = { at_a: query.get("at_a"), at_b: query.get("at_b") }
  const node = query.get("node")
  const isComplete = a !== "" && b !== ""
  const read = useQuery({
    queryKey: ["compare", a, b, moments.at_a, moments.at_b],
    queryFn: ({ signal }) => ask<Comparison>("/jobs/compare", { query: { a, b, ...moments }, signal }),
    enabled: isComplete,
  })
  const { data } = read
  const isOpen = (status: string | undefined, at: string | null) =>
    status !== undefined && at === null && !ended.has(status)
  const isLive = isOpen(data?.a.status, moments.at_a) || isOpen(data?.b.status, moments.at_b)
  useChanges(isLive ? [a, b] : null)
  const swap = () => changeQuery({ a: b, b: a, at_a: moments.at_b, at_b: moments.at_a })
  const toggle = () => changeQuery({ only: query.get("only") === null ? "1" : null }, { replace: true })
  useTitle("Compare")
  useKeys({
    ...rowKeys(".cn"),
    s: () => isComplete && swap(),
    d: () => isComplete && toggle(),
    r: () => void read.refetch(),
    Escape: () => node !== null && changeQuery({ node: null }),
  })
  return (
    <Shell
      session={session}
      page="jobs"
      {...(data === undefined
        ? {}
        : { connection: { kind: isLive ? "live" : "ended", text: isLive ? "Live" : "" } as const })}
    >
      <Main name="cmp" aria-busy={read.isFetching}>
        <div className="phead">
          <h1>Compare</h1>
          <span className="dim hide-s">
            {isComplete && (a === b ? "two moments of one job" : "two jobs")}
          </span>
          <span className="sp" />
          {isComplete && (
            <button
              className="btn"
              type="button"
              onClick={() => void copyText(buildDiffCommand(a, b, moments))}
            >
              <Icon name="copy" />
              Copy as command
            </button>
          )}
        </div>
        {!isComplete ? (
          <section className="panel">
            <Chooser />
          </section>
        ) : read.error !== null ? (
          <section className="panel">
            <Failed
              what="The comparison"
              error={read.error}
              note="This does not mean that the jobs are the same."
              onRetry={() => void read.refetch()}
            />
            <Chooser />
          </section>
        ) : data === undefined ? (
          <section className="panel">
            <Loading what="both jobs" rows={8} />
          </section>
        ) : (
          <>
            <Sides compared={data} moments={moments} onSwap={swap} />
            <First compared={data} />
            <div className="cgrid" data-open={node !== null || undefined}>
              <NodeTable
                compared={data}
                selected={node}
                isShort={query.get("only") !== null}
                onShort={toggle}
              />
              {node !== null && <NodePanel key={node} compared={data} node={node} moments={moments} />}
            </div>
          </>
        )}
      </Main>
    </Shell>
  )
}

interface Moments {
  readonly at_a: string | null
  readonly at_b: string | null
}

function buildDiffCommand(a: string, b: string, { at_a, at_b }: Moments): string {
  const flags = [
    ["--at-a", at_a],
    ["--at-b", at_b],
  ].flatMap(([flag, at]) => (at == null ? [] : [` ${flag} ${at}`]))
  return `umbra jobs diff ${a} ${b}${flags.join("")}`
}

/** Compares again while one of the jobs is running. */
function useChanges(jobs: readonly string[] | null): void {
  const queries = useQueryClient()
  const key = jobs?.join(" ") ?? ""
  useEffect(() => {
    if (key === "") return
    const ids = key.split(" ")
    let timer: ReturnType<typeof setTimeout> | undefined
    const stop = followJobs({
      onJob: job => {
        if (!ids.includes(job.job_id)) return
        timer ??= setTimeout(() => {
          timer = undefined
          void queries.invalidateQueries({ queryKey: ["compare"] })
        }, NEWS_MS)
      },
      onConnection: () => {},
    })
    return () => {
      stop()
      clearTimeout(timer)
    }
  }, [key, queries])
}

/** With what the address has. */
function Chooser() {
  const { query } = usePlace()
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const text = (name: string) => String(form.get(name)).trim()
    changeQuery({
      ...{ a: text("a"), b: text("b") || text("a") },
      ...{ at_a: text("at_a") || null, at_b: text("at_b") || null },
    })
  }
  return (
    <form className="choose" onSubmit={submit}>
      {(["a", "b"] as const).map(side => (
        <fieldset key={side}>
          <legend>
            <span className={`abk ${side}`}>{side.toUpperCase()}</span>
          </legend>
          <label className="field">
            <span>Id of job {side.toUpperCase()}</span>
            <input
              className="in mono"
              name={side}
              defaultValue={query.get(side) ?? ""}
              placeholder={side === "a" ? "" : "the same job"}
              required={side === "a"}
              autoComplete="off"
              spellCheck={false}
            />
          </label>
          <label className="field">
            <span>Moment of {side.toUpperCase()}</span>
            <input
              className="in mono"
              name={`at_${side}`}
              defaultValue={query.get(`at_${side}`) ?? ""}
              placeholder="now; or a seq, #12, a time"
              autoComplete="off"
              spellCheck={false}
            />
          </label>
        </fieldset>
      ))}
      <button className="btn primary" type="submit">
        Compare
      </button>
    </form>
  )
}

function Sides({
  compared,
  moments,
  onSwap,
}: {
  compared: Comparison
  moments: Moments
  onSwap: () => void
}) {
  const { a, b, delta, nodes } = compared
  const usage = Object.keys({ ...a.usage, ...b.usage })[0]
  const same = nodes.filter(node => judgeNode(node) === "same").length
  const attempts = nodes.reduce((sum, node) => sum + (node.b?.attempts ?? 0) - (node.a?.attempts ?? 0), 0)
  return (
    <section className="panel ab" aria-label="Both sides">
      <Side letter="a" side={a} at={moments.at_a === null ? null : compared.moments.a.at} />
      <button
        className="btn icon-only"
        type="button"
        aria-label="Swap A and B"
        title="Swap  S"
        onClick={onSwap}
      >
        <Icon name="takeover" />
      </button>
      <Side letter="b" side={b} at={moments.at_b === null ? null : compared.moments.b.at} />
      <dl className="deltas">
        <Delta name="Time" value={delta.took_ms === null ? "no data" : signed(delta.took_ms, duration)} />
        {usage !== undefined && (
          <Delta name={usage} value={signed(delta.usage[usage] ?? 0, value => amount(usage, value))} />
        )}
        <Delta name="Attempts" value={signed(attempts, count)} />
        <Delta name="Same nodes" value={count(same)} note={`of ${count(nodes.length)}`} />
      </dl>
    </section>
  )
}

function Delta({ name, value, note }: { name: string; value: string; note?: string }) {
  return (
    <div className="stat">
      <dt>{name}</dt>
      <dd>
        {value} <small>{note}</small>
      </dd>
    </div>
  )
}

function Side({ letter, side, at }: { letter: "a" | "b"; side: ComparedSide; at: string | null }) {
  return (
    <div className="abc">
      <span className={`abk ${letter}`}>{letter.toUpperCase()}</span>
      <div>
        <p className="row">
          <b className="trunc">{side.workflow}</b>
          <span className="tagc">{versionText(side.workflow_version)}</span>
          <Pill status={side.status} />
        </p>
        <p className="small dim">
          <a className="link mono" href={pageHref(`/jobs/${side.job_id}`)}>
            {shortId(side.job_id)}
          </a>{" "}
          · {duration(side.took_ms)}
          {at !== null && <span title={timeAgo(Date.parse(at))}> · at {clock(Date.parse(at))}</span>}
        </p>
      </div>
    </div>
  )
}

function First({ compared }: { compared: Comparison }) {
  const { divergence } = compared
  const node = divergence?.kind === "input" ? "input" : (divergence?.node ?? null)
  return (
    <section className="panel first" data-diverges={divergence?.kind ?? "none"} aria-label="First divergence">
      <p>
        <b>
          {divergence === null
            ? compared.complete
              ? "No difference."
              : "Not everything was compared."
            : `First divergence: ${divergence.node ?? "the inputs"}.`}
        </b>{" "}
        {divergenceText(compared)}
      </p>
      {node !== null && (
        <button className="btn sm" type="button" onClick={() => changeQuery({ node })}>
          Show the change
        </button>
      )}
    </section>
  )
}
