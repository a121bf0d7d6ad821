/**
 * What the server reports about a wait: its sentence, the chain of causes, and what would help. It knows more than the
 * facts: positions in queues, holders of slots, child jobs.
 *
 * The newest moment is read again when facts arrive, at most every three seconds, and every 90 seconds without them; a past
 * moment once, when the slider has stopped at it.
 */
import { useQuery } from "@tanstack/react-query"
import { useEffect, useRef } from "react"
import { clock, count, duration, elapsed, shortId } from "../../model/format.ts"
import type { JobSource, WhyAnswer, WhyReason } from "../../model/source.ts"
import type { Moment, Timeline } from "../../model/timeline.ts"
import { whyParts } from "../../model/why-text.ts"
import { pageHref } from "../../shell/router.ts"
import { Sentence } from "./sentence.tsx"
import { endedJobs, useIsSettled } from "./settled.ts"

const LIVE_MS = 3000
const IDLE_MS = 90_000
const MOST_REASONS = 6
const endedNodes = new Set(["COMPLETED", "FAILED", "CANCELLED", "SKIPPED"])

interface WhyAnswerProps {
  readonly source: JobSource
  readonly timeline: Timeline
  readonly moment: Moment
  /** null: the whole job. */
  readonly node: number | null
  readonly onNode: (id: string) => void
}

export function ServerWhy(props: WhyAnswerProps) {
  const { source, timeline, moment, node, onNode } = props
  const { answer, error } = useWhy(props)
  if (error !== null)
    return (
      <p className="small dim" data-why="failed">
        What the server knows about this wait could not be read: {error.message}
      </p>
    )
  if (answer === null || answer.reasons.length === 0) return null
  const text = (said: string) => (
    <Sentence parts={whyParts(said, moment.at, id => timeline.positions.has(id))} onNode={onNode} />
  )
  const [first, ...more] = answer.reasons
  // The sentence has the pause of a job that holds no node.
  const others = more.filter(reason => reason.count > 0)
  return (
    <section className="hint why" data-why={answer.at} aria-label="Reason, as reported by the server">
      <p className="cause">{text(answer.sentence)}</p>
      {answer.chain.length > 1 && (
        <ol className="chain" aria-label="Chain of causes">
          {answer.chain.map(({ job_id, node: id, sentence }) => (
            <li key={`${job_id} ${id}`}>
              {job_id === source.jobId
                ? text(sentence)
                : text(`In job ${job_id}: ${sentence.charAt(0).toLowerCase()}${sentence.slice(1)}`)}
            </li>
          ))}
        </ol>
      )}
      {node === null && others.length > 0 && (
        <ul className="chain" aria-label="Other reasons">
          {others.slice(0, MOST_REASONS).map(reason => (
            <li key={reason.sentence}>{text(reason.sentence)}</li>
          ))}
          {others.length > MOST_REASONS && <li>and {count(others.length - MOST_REASONS)} other reasons</li>}
        </ul>
      )}
      {answer.action !== null && (
        <p className="helps">
          <b>What helps:</b> {text(answer.action)}
        </p>
      )}
      {first!.details.holders !== undefined && first!.details.holders.length > 0 && (
        <Holders holders={first!.details.holders} now={moment.at} />
      )}
      <Usual reason={first!} now={moment.at} />
      {answer.unknown.length > 0 && <p className="dim">Not recorded then: {answer.unknown.join(", ")}.</p>}
      <p className="tiny dim">
        {moment.isLive
          ? `Reported by the server at ${clock(Date.parse(answer.at))}`
          : "Computed by the server from the facts up to this moment"}
      </p>
    </section>
  )
}

function Holders({ holders, now }: { holders: NonNullable<WhyReason["details"]["holders"]>; now: number }) {
  return (
    <table className="tbl holders">
      <thead>
        <tr>
          <th>Held by</th>
          <th className="num">Slots</th>
          <th className="num">For</th>
        </tr>
      </thead>
      <tbody>
        {holders.map(({ job_id, slots, since }) => (
          <tr key={job_id}>
            <td>
              <a className="link mono" href={pageHref(`/jobs/${job_id}`)}>
                {shortId(job_id)}
              </a>
            </td>
            <td className="num">{count(slots)}</td>
            <td className="num">{elapsed(now - Date.parse(since))}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Usual({ reason: { kind, usual, since }, now }: { reason: WhyReason; now: number }) {
  if (usual === null || since === null) return null
  const waited = now - Date.parse(since)
  return (
    <p>
      {kind === "running" ? "Runs" : "Waits"} for <b>{elapsed(waited)}</b>; usually {duration(usual.p50)}, in
      99 of 100 cases at most {duration(usual.p99)} ({count(usual.count)} counted).
      {waited > usual.p99 && <span className="t-failed"> This is unusually long.</span>}
    </p>
  )
}

interface Found {
  readonly answer: WhyAnswer | null
  readonly error: Error | null
}

function useWhy({ source, timeline, moment, node }: WhyAnswerProps): Found {
  const view = node === null ? null : moment.view.nodes[node]!
  const isOpen = !endedJobs.has(moment.view.status) && (view === null || !endedNodes.has(view.status))
  const id = node === null ? null : timeline.graph.nodes[node]!.id
  const subject = `${id ?? ""}\n${moment.isLive ? "now" : moment.seq}`
  const isSettled = useIsSettled(subject)
  /** Of the answer: another one of the node makes it outdated. */
  const wait = view === null ? "" : `${view.status} ${view.waiting_on?.kind}`
  const asked = useRef("")
  const state = `${moment.seq} ${wait}`
  const { data, error, dataUpdatedAt, errorUpdatedAt, refetch } = useQuery({
    queryKey: ["why", source.jobId, subject],
    enabled: source.why !== null && isOpen && isSettled,
    queryFn: async ({ signal }) => {
      asked.current = state
      return { wait, answer: await source.why!({ node: id, seq: moment.isLive ? null : moment.seq, signal }) }
    },
    staleTime: moment.isLive ? LIVE_MS : Number.POSITIVE_INFINITY,
    gcTime: 60_000,
    refetchInterval: moment.isLive && isOpen ? IDLE_MS : false,
    retry: false,
  })
  const isDue =
    moment.isLive && isOpen && isSettled && source.connection.kind === "live" && asked.current !== state
  const last = Math.max(dataUpdatedAt, errorUpdatedAt)
  useEffect(() => {
    if (!isDue || last === 0) return
    const timer = setTimeout(
      () => void refetch({ cancelRefetch: false }),
      Math.max(0, last + LIVE_MS - Date.now()),
    )
    return () => clearTimeout(timer)
  }, [isDue, last, refetch])
  if (!isOpen || !isSettled) return { answer: null, error: null }
  if (data === undefined) return { answer: null, error }
  return { answer: data.wait === wait ? data.answer : null, error: null }
}
