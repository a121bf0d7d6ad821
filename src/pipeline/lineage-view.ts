/** Messages and what adapters did to them, as JSON for people and programs. */
import type { Json } from "../core/json.ts"
import type { PipelinePlan } from "../definition/pipeline/plan.ts"
import type { LineageRow, MessageKey, MessageRow, PipelineStore } from "../journal/port/pipelines.ts"
import type { LiveMessage } from "./commit/live-message.ts"
import { messageName } from "./message-names.ts"

export interface InvocationView {
  readonly adapter: string
  readonly attempt: number
  /** running: it has not ended, and `duration_ms` is how long it has taken so far. */
  readonly status: "running" | "completed" | "failed"
  /** When the call began; of a message that was gathered, when the call for all of them did. */
  readonly at: number
  /** 0 for a message that was gathered: the time is that of the call on the message it was gathered into. */
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
  /** The message that it was emitted for; null: an initial one. */
  readonly parent: string | null
  /** The dead letter that it replays. */
  readonly replay_of: MessageLink | null
  /** Of a dead letter: the message that replays it. */
  readonly replayed_by: MessageLink | null
  /** Messages that were processed as one with it. */
  readonly gathered: readonly string[]
  readonly correlation_id: string
  /** When it was written to its queue. */
  readonly at: number
  /**
   * pending: queued, or in hand in a process that was not asked. running: in hand here. failed: the last try (dead letters
   * say whether it was the last of all), or a dead letter that no try is on record of.
   */
  readonly status: "pending" | "running" | "completed" | "failed"
  readonly invocations: readonly InvocationView[]
  readonly body: Json
  /** The body is too large to be shown beside others: ask for this message. */
  readonly body_left_out?: true
}

export interface LineageView {
  /** null: the job has no such message yet, and has not ended. */
  readonly message: MessageView | null
  /** What it comes from, the nearest first. */
  readonly inputs: readonly MessageView[]
  /** What comes from it, the nearest first. */
  readonly outputs: readonly MessageView[]
  /** There are more than are shown. */
  readonly is_cut: boolean
}

/** An execution whose messages are walked over. */
export interface LineageScene {
  readonly store: PipelineStore
  readonly plan: PipelinePlan
  readonly jobId: string
  readonly owner: string
  readonly execution: number
  /** The job has ended: no message is added any more. */
  readonly hasEnded: boolean
  /** The job whose dead letters it began with. */
  readonly replayOf: string | null
  /** null: the message is not in hand in this process. */
  readonly live: (key: MessageKey) => LiveMessage | null
}

/** A message of one of the executions. */
export interface Ref extends MessageKey {
  readonly scene: LineageScene
}

export interface Known {
  readonly scene: LineageScene
  readonly message: Omit<MessageRow, "body"> & { readonly body: string | null }
  readonly rows: readonly LineageRow[]
  readonly live: LiveMessage | null
  readonly gathered: readonly MessageKey[]
  readonly replayOf: Ref | null
  /** With the job and the number that it has there. */
  readonly replayedBy: { readonly jobId: string; readonly key: MessageKey } | null
  /** Has no rows, and never will: it went too far (E704), or ended its process (E709). */
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

export function viewOf({ scene, message, rows, live, gathered, isDead, ...links }: Known): MessageView {
  const { plan, jobId } = scene
  const all = [...rows, ...(live?.rows ?? [])]
  const running = live?.running ?? null
  const { adapters } = plan.routes[message.route]!
  const { replayOf, replayedBy } = links
  // A worker elsewhere may have it, of which nothing more is known.
  const isRunning = running !== null || (live !== null && live.rows.length === 0)
  return {
    job_id: jobId,
    id: messageName(plan, message),
    parent: message.parent === null ? null : messageName(plan, message.parent),
    replay_of:
      replayOf === null
        ? null
        : { job_id: replayOf.scene.jobId, message: messageName(replayOf.scene.plan, replayOf) },
    // Routes of a replay have the same names in the same order.
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
        // Stored is when the call ended.
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
