/** The groups of the page, each with what, since when, how many, and what can be done. */
import { Sentence } from "../job/panel/sentence.tsx"
import { clock, count, counted, elapsed, shortId, timeAgo } from "../model/format.ts"
import { whyParts } from "../model/why-text.ts"
import type { ExecutionPage } from "../pipeline/page.tsx"
import { Icon, StateMark } from "../shell/icons.tsx"
import { go, pageHref } from "../shell/router.ts"
import { groupTitle, type WaitGroup, type Waits, waitText } from "./needs.ts"

export interface FailureGroup {
  readonly fingerprint: string
  readonly workflow: string
  readonly code: string
  readonly node: string | null
  readonly message: string
  readonly count: number
  readonly first_at: string
  readonly last_at: string
  readonly example_job_id: string
}

export interface Failures {
  readonly groups: readonly FailureGroup[]
  readonly jobs: number
  readonly complete: boolean
  readonly from: string
}

/** Of `GET /workers`, or counts of `GET /health`, which needs no scope. */
export interface Workers {
  readonly workers:
    | readonly {
        readonly id: string
        readonly host: string
        readonly pid: number
        readonly state: "live" | "dead" | "outdated"
        readonly last_beat: string
        readonly version: string
      }[]
    | { readonly live: number; readonly dead: number; readonly outdated?: number }
}

const MOST_GROUPS = 20

function Said({ text }: { text: string }) {
  return <Sentence parts={whyParts(text, Date.now(), () => false)} onNode={() => {}} />
}

export function FailureList({
  failures,
  range,
  hours,
  onRetry,
}: {
  failures: Failures
  range: string
  hours: number
  /** null: not allowed. */
  onRetry: ((group: FailureGroup) => void) | null
}) {
  const { groups, complete, jobs } = failures
  if (groups.length === 0) return null
  return (
    <section className="panel" aria-label="Failures">
      <header>
        <StateMark status="FAILED" />
        <h2>Failures</h2>
        <span className="dim small">by error and node · last {range}</span>
      </header>
      <ul>
        {groups.slice(0, MOST_GROUPS).map(group => {
          const { fingerprint, workflow, code, node, message, example_job_id: example } = group
          const jobsHref = pageHref("/jobs", {
            status: "FAILED",
            workflow,
            fingerprint,
            started: `${hours} h`,
          })
          return (
            <li key={`${fingerprint} ${workflow}`} className="gi" data-group={fingerprint}>
              <div className="gh">
                <span className="tagc mono bad">{code}</span>
                <a className="med nl" href={pageHref(`/jobs/${example}`, { node })}>
                  {node === null ? "" : `${node}: `}
                  {message}
                </a>
              </div>
              <p className="gm">
                {workflow}. <Span first={group.first_at} last={group.last_at} />
              </p>
              <a className="gn" href={jobsHref} title="Show these jobs">
                <b>{count(group.count)}</b> {group.count === 1 ? "job" : "jobs"}
              </a>
              <div className="ga">
                {onRetry !== null && (
                  <button className="btn sm" type="button" onClick={() => onRetry(group)}>
                    Retry {count(group.count)}
                  </button>
                )}
                <a className="btn sm" href={pageHref(`/jobs/${example}`, { node })}>
                  Open
                </a>
              </div>
            </li>
          )
        })}
      </ul>
      {(!complete || groups.length > MOST_GROUPS) && (
        <p className="gfoot small dim">
          {groups.length > MOST_GROUPS &&
            `${counted(groups.length - MOST_GROUPS, "smaller group")} not shown. `}
          {!complete && `The search ended early, after ${counted(jobs, "failed job")}.`}
        </p>
      )}
    </section>
  )
}

function Span({ first, last }: { first: string; last: string }) {
  const [from, to] = [Date.parse(first), Date.parse(last)]
  return (
    <span title={timeAgo(to)}>
      {from === to ? `At ${clock(to)}` : `First at ${clock(from)}, last at ${clock(to)}`},{" "}
      {elapsed(Date.now() - to)} ago.
    </span>
  )
}

/** The server counts dead letters up to this number. */
const MOST_DEAD = 1000

/** Executions with messages that failed permanently and have not been replayed. */
export function DeadLetterList({ page: { executions, next, complete } }: { page: ExecutionPage }) {
  if (executions.length === 0) return null
  return (
    <section className="panel" aria-label="Dead letters">
      <header>
        <StateMark status="FAILED" />
        <h2>Dead letters</h2>
        <span className="dim small">messages of pipelines that failed permanently, not replayed</span>
      </header>
      <ul>
        {executions.map(
          ({ job_id, workflow, status, created_at, dead_letters: { count: number, first } }) => (
            <li key={job_id} className="gi" data-group={`dead ${job_id}`}>
              <div className="gh">
                {first !== null && <span className="tagc mono bad">{first.error.code}</span>}
                <a className="med nl" href={pageHref(`/jobs/${job_id}`, { letter: first?.message ?? null })}>
                  {workflow}
                  {first === null ? "" : `: ${first.error.message}`}
                </a>
              </div>
              <p className="gm">
                {first !== null && `The first is ${first.message}. `}Job {shortId(job_id)},{" "}
                {status.toLowerCase()}, began at {clock(Date.parse(created_at))}.
              </p>
              <span className="gn">
                <b>
                  {count(number)}
                  {number >= MOST_DEAD ? "+" : ""}
                </b>{" "}
                {number === 1 ? "message" : "messages"}
              </span>
              <div className="ga">
                <a className="btn sm" href={pageHref(`/jobs/${job_id}`, { letter: first?.message ?? null })}>
                  Open
                </a>
              </div>
            </li>
          ),
        )}
      </ul>
      {(next !== null || !complete) && (
        <p className="gfoot small dim">
          <a className="link" href={pageHref("/pipelines", { dead: "1" })}>
            All jobs with dead letters
          </a>
        </p>
      )}
    </section>
  )
}

export function WaitList({ groups, now }: { groups: readonly WaitGroup[]; now: number }) {
  if (groups.length === 0) return null
  return (
    <section className="panel" aria-label="Not moving">
      <header>
        <StateMark status="QUEUED" />
        <h2>Not moving</h2>
        <span className="dim small">by cause · longer than usual, or without an end</span>
      </header>
      <ul>
        {groups.map(group => {
          const [first] = group.examples
          const href =
            first === undefined ? pageHref("/jobs") : pageHref(`/jobs/${first.job_id}`, { node: first.node })
          return (
            <li key={`${group.kind} ${group.subject}`} className="gi" data-group={group.kind}>
              <div className="gh">
                <Icon name={group.kind === "slot" ? "slot" : group.kind === "paused" ? "pause" : "clock"} />
                <a className="med nl" href={href}>
                  {groupTitle(group)}
                </a>
              </div>
              <div className="gm">
                <p>
                  <Said text={group.sentence} /> {waitText(group, now)}
                </p>
                {group.action !== null && (
                  <p>
                    <Said text={group.action} />
                  </p>
                )}
              </div>
              <span className="gn">
                <b>{count(group.nodes)}</b> {group.nodes === 1 ? "node" : "nodes"}
                {group.jobs < group.nodes && <small> of {counted(group.jobs, "job")}</small>}
              </span>
              <div className="ga">
                <a className="btn sm" href={href}>
                  Open
                </a>
              </div>
            </li>
          )
        })}
      </ul>
    </section>
  )
}

interface Service {
  readonly key: string
  readonly status: "FAILED" | "WAITING"
  readonly title: string
  readonly text: string
  readonly href: string | null
}

export function servicesIn({ groups }: Waits, { workers }: Workers): readonly Service[] {
  const breakers = groups
    .filter(({ kind }) => kind === "breaker")
    .map(({ subject, sentence, action, examples }): Service => {
      const [first] = examples
      return {
        ...{ key: `breaker ${subject}`, status: "FAILED", text: `${sentence} ${action ?? ""}` },
        title: `Breaker open: ${first?.workflow ?? ""}, route ${subject}`,
        href: first === undefined ? null : pageHref(`/jobs/${first.job_id}`, { panel: "job", tab: "Routes" }),
      }
    })
  return [...breakers, ...deadWorkers(workers)]
}

function deadWorkers(workers: Workers["workers"]): readonly Service[] {
  const old = "It runs an earlier release and gets no tasks. Replace it."
  if (Array.isArray(workers))
    return (workers as Extract<Workers["workers"], readonly unknown[]>)
      .filter(({ state }) => state !== "live")
      .map(({ id, host, pid, state, last_beat, version }) => ({
        ...{ key: `worker ${id}`, href: pageHref("/capacity") },
        status: state === "dead" ? "FAILED" : "WAITING",
        title: `Worker on ${host}, process ${pid}, is ${state === "dead" ? "dead" : "outdated"}`,
        text:
          state === "dead"
            ? `It was ${id}, version ${version}. Its last heartbeat was at ${clock(Date.parse(last_beat))}, ${elapsed(Date.now() - Date.parse(last_beat))} ago; other workers run its attempts.`
            : `It is ${id}, version ${version}. ${old}`,
      }))
  const { dead, outdated = 0 } = workers as Exclude<Workers["workers"], readonly unknown[]>
  const said: Service[] = []
  const base = { href: null, text: "The scope admin shows which." }
  if (dead > 0)
    said.push({ ...base, key: "dead", status: "FAILED", title: `${counted(dead, "worker")} dead` })
  if (outdated > 0)
    said.push({ ...base, key: "old", status: "WAITING", title: `${counted(outdated, "worker")} outdated` })
  return said
}

export function Services({ services }: { services: readonly Service[] }) {
  if (services.length === 0) return null
  return (
    <section className="panel" aria-label="Services and workers">
      <header>
        <Icon name="capacity" />
        <h2>Services and workers</h2>
      </header>
      <ul>
        {services.map(({ key, status, title, text, href }) => (
          <li key={key} className="gi" data-group={key}>
            <div className="gh">
              <StateMark status={status} />
              {href === null ? (
                <span className="med">{title}</span>
              ) : (
                <a className="med nl" href={href}>
                  {title}
                </a>
              )}
            </div>
            <p className="gm">
              <Said text={text} />
            </p>
            <div className="ga">
              {href !== null && (
                <a className="btn sm" href={href}>
                  Open
                </a>
              )}
            </div>
          </li>
        ))}
      </ul>
    </section>
  )
}

type Approval = WaitGroup["examples"][number] & { readonly signal: string }

interface ApprovalSet {
  /** The longest wait first. */
  readonly shown: readonly Approval[]
  readonly count: number
}

export function approvalsIn({ groups }: Waits): ApprovalSet {
  const signals = groups.filter(({ kind }) => kind === "signal")
  const shown = signals.flatMap(({ subject, examples }) =>
    examples.map(example => ({ ...example, signal: subject })),
  )
  return {
    shown: shown.sort((a, b) => (a.since ?? "").localeCompare(b.since ?? "")),
    count: signals.reduce((sum, { jobs }) => sum + jobs, 0),
  }
}

export function Approvals({ approvals, now }: { approvals: ApprovalSet; now: number }) {
  const { shown, count: all } = approvals
  return (
    <section className="panel" aria-label="Waiting for people">
      <header>
        <StateMark status="WAITING" />
        <h2>Waiting for people</h2>
        <span className="tagc">{count(all)}</span>
      </header>
      <ul>
        {shown.slice(0, MOST_GROUPS).map(({ job_id, workflow, node, item, signal, since, until }) => {
          const href = pageHref(`/jobs/${job_id}/answer`, { node, item: item?.toString() ?? null })
          return (
            <li key={`${job_id} ${signal}`} className="ap" data-job={job_id}>
              <div className="row">
                <a className="med nl trunc" href={href}>
                  {signal}
                </a>
                <span className="sp" />
                <span className={until === null ? "small dim nowrap" : "small t-waiting nowrap"}>
                  {since !== null && `waits ${elapsed(now - Date.parse(since))}, `}
                  {until === null ? "no limit" : `expires in ${elapsed(Date.parse(until) - now)}`}
                </span>
              </div>
              <div className="row">
                <p className="small dim">
                  {workflow} <span className="mono">{shortId(job_id)}</span> · {node}
                  {item !== null && `, item ${item}`}
                </p>
                <span className="sp" />
                <button className="btn sm" type="button" onClick={() => go(href)}>
                  Answer
                </button>
              </div>
            </li>
          )
        })}
      </ul>
      {all > Math.min(MOST_GROUPS, shown.length) && (
        <p className="gfoot small dim">
          {count(all - Math.min(MOST_GROUPS, shown.length))} more are not shown.
        </p>
      )}
    </section>
  )
}
