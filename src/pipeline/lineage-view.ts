/** Messages and their adapter calls, as JSON for people and programs. */
import type { Json } from "../core/json.ts"
import type { PipelinePlan } from "../definition/pipeline/plan.ts"
import type { LineageRow, MessageKey, MessageRow, PipelineStore } from "../journal/port/pipelines.ts"
import type { LiveMessage } from "./commit/live-message.ts"
import { messageName } from "./message-names.ts"

export interface InvocationView {
  readonly adapter: string
  readonly attempt: number
  /** running: the call has not ended, and `duration_ms` is its time so far. */
  readonly status: "running" | "completed" | "failed"
  /** When the call began; for a gathered message, when the call for the whole group began. */
  readonly at: number
  /** 0 for a gathered message: the time is that of the call on the message it was gathered into. */
  readonly duration_ms: number
  /** The message that this one was gathered into. */
  readonly into: string | null
  readonly emitted: number
  readonly error: Json
}

/** A message of another job. */
export interface MessageLink {
  readonly job_id: string
  readonly message: string
}

export interface MessageView {
  readonly job_id: string
  readonly id: string
  /** The message during whose processing it was emitted; null: an initial message. */
  readonly parent: string | null
  /** The dead letter that it replays. */
  readonly replay_of: MessageLink | null
  /** For a dead letter: the message that replays it. */
  readonly replayed_by: MessageLink | null
  /** The messages that were processed as one with it. */
  readonly gathered: readonly string[]
  readonly correlation_id: string
  /** When it was written to its queue. */
  readonly at: number
  /**
   * pending: queued, or in flight in a process that was not queried. running: in flight in this process.
   * failed: the last try failed (the dead letters tell whether it was the final one), or a dead letter
   * without a recorded try.
   */
  readonly status: "pending" | "running" | "completed" | "failed"
  readonly invocations: readonly InvocationView[]
  readonly body: Json
  /** The body is too large to be shown in a list: request this message itself. */
  readonly body_left_out?: true
}

export interface LineageView {
  /** null: the job has no such message yet, and has not ended. */
  readonly message: MessageView | null
  /** The messages that it derives from, the nearest first. */
  readonly inputs: readonly MessageView[]
  /** The messages that derive from it, the nearest first. */
  readonly outputs: readonly MessageView[]
  /** There are more messages than are shown. */
  readonly is_cut: boolean
}

/** An execution whose lineage is being walked. */
export interface LineageSource {
  readonly store: PipelineStore
  readonly plan: PipelinePlan
  readonly jobId: string
  readonly owner: string
  readonly execution: number
  /** The job has ended: no message is added any more. */
  readonly hasEnded: boolean
  /** The job whose dead letters it began with. */
  readonly replayOf: string | null
  /** null: the message is not in flight in this process. */
  readonly live: (key: MessageKey) => LiveMessage | null
}

/** A message of one of the executions. */
export interface Ref extends MessageKey {
  readonly source: LineageSource
}

export interface Known {
  readonly source: LineageSource
  readonly message: Omit<MessageRow, "body"> & { readonly body: string | null }
  readonly rows: readonly LineageRow[]
  readonly live: LiveMessage | null
  readonly gathered: readonly MessageKey[]
  readonly replayOf: Ref | null
  /** With the job and the number that it has there. */
  readonly replayedBy: { readonly jobId: string; readonly key: MessageKey } | null
  /** It has no rows, and never will: it exceeded the hop limit (E704), or crashed its process (E709). */
  readonly isDead: boolean
}

/** `1:5-9,2:7` */
export function emittedRanges(
  text: string | null,
): { readonly route: number; readonly from: number; readonly to: number }[] {
  if (text === null) return []
  return text.split(",").map(part => {
    const [route, range] = part.split(":") as [string, string]
    const [from, to = from] = range.split("-") as [string, string?]
    return { route: Number(route), from: Number(from), to: Number(to) }
  })
}

export function viewOf({ source, message, rows, live, gathered, isDead, ...links }: Known): MessageView {
  const { plan, jobId } = source
  const all = [...rows, ...(live?.rows ?? [])]
  const running = live?.running ?? null
  const { adapters } = plan.routes[message.route]!
  const { replayOf, replayedBy } = links
  // A remote worker may hold it, whose progress is not known here.
  const isRunning = running !== null || (live !== null && live.rows.length === 0)
  return {
    job_id: jobId,
    id: messageName(plan, message),
    parent: message.parent === null ? null : messageName(plan, message.parent),
    replay_of:
      replayOf === null
        ? null
        : { job_id: replayOf.source.jobId, message: messageName(replayOf.source.plan, replayOf) },
    // The routes of a replay have the same names in the same order.
    replayed_by:
      replayedBy === null ? null : { job_id: replayedBy.jobId, message: messageName(plan, replayedBy.key) },
    gathered: gathered.map(key => messageName(plan, key)),
    correlation_id: `${jobId}/${message.root}`,
    at: message.at,
    status: isRunning ? "running" : (all.at(-1)?.status ?? (isDead ? "failed" : "pending")),
    invocations: [
      ...all.map(row => ({
        adapter: adapters[row.adapter]!.type,
        attempt: row.attempt,
        status: row.status,
        // The stored time is the end of the call.
        at: Math.round(row.at - row.durationUs / 1000),
        duration_ms: row.durationUs / 1000,
        into: row.into === null ? null : messageName(plan, { route: row.route, seq: row.into }),
        emitted: emittedRanges(row.emitted).reduce((sum, { from, to }) => sum + to - from + 1, 0),
        error: row.error === null ? null : (JSON.parse(row.error) as Json),
      })),
      ...(running === null
        ? []
        : [
            {
              adapter: adapters[running.adapter]!.type,
              attempt: running.attempt,
              status: "running" as const,
              at: running.at,
              duration_ms: running.durationUs / 1000,
              into: null,
              emitted: running.emitted,
              error: null,
            },
          ]),
    ],
    ...(message.body === null
      ? { body: null, body_left_out: true }
      : { body: JSON.parse(message.body) as Json }),
  }
}
