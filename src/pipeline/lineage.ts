/**
 * The lineage of messages (P5), walked over the stored rows: from any output to its inputs, and back, also
 * from a replayed message to its dead letter in another job. For messages in flight, the process that runs
 * the execution adds what is not stored yet. A walk returns at most `limit` messages, and reports when there
 * were more.
 */

import type { Json } from "../core/json.ts"
import { groupBy } from "../core/maps.ts"
import { formatMessageKey } from "../core/pipeline/settled.ts"
import type { PipelinePlan } from "../definition/pipeline/plan.ts"
import type { LiveMessage, LiveMessages } from "../engine/remote/live-messages.ts"
import { UmbraError } from "../errors.ts"
import { inKeyOrder } from "../journal/pipeline-rules.ts"
import type {
  DeadLetterRow,
  LineageRow,
  MessageKey,
  MessageRow,
  PipelineStore,
} from "../journal/port/pipelines.ts"
import { messageKey, messageName } from "./message-names.ts"

/** null: the job does not exist, or belongs to another owner. */
type OpenSource = (jobId: string) => Promise<LineageSource | null>

/** The number of calls of one message that are shown: endless retries would fill every page. */
const ROWS_PER_MESSAGE = 50
/** The number of messages read at a time: bodies may be a megabyte each. */
const BREADTH = 50
/** For the messages around the one that was requested; larger bodies are dropped as they are read. */
const BODY_CHARACTERS = 4096

export async function walkLineage(
  source: LineageSource,
  open: OpenSource,
  name: string,
  { limit = 100, depth = Number.POSITIVE_INFINITY, width = limit, from = 0, direction }: LineageQuery,
): Promise<LineageView> {
  const start = { source: source, ...messageKey(source.plan, name) }
  const bounds = { limit, depth, width, from }
  const [message] = await new LineageWalk(open, bounds, Number.POSITIVE_INFINITY).read([start])
  if (message === undefined) {
    // The job may have been submitted only a moment ago.
    if (!source.hasEnded) return { message: null, inputs: [], outputs: [], is_cut: false }
    throw new UmbraError(
      "E706",
      `Job ${source.jobId} has no message ${name}, or its lineage has been removed.`,
    )
  }
  const up = new LineageWalk(open, bounds)
  const inputs = direction === "outputs" ? [] : await up.follow(message, known => up.findInputs(known))
  const down = new LineageWalk(open, bounds)
  const outputs = direction === "inputs" ? [] : await down.follow(message, known => down.findOutputs(known))
  return {
    message: messageView(message),
    inputs: inputs.map(messageView),
    outputs: outputs.map(messageView),
    is_cut: up.isCut || down.isCut,
  }
}

interface Bounds {
  readonly limit: number
  readonly depth: number
  readonly width: number
  readonly from: number
}

class LineageWalk {
  readonly #open: OpenSource
  readonly #bounds: Bounds
  readonly #bodyCharacters: number
  isCut = false

  constructor(open: OpenSource, bounds: Bounds, bodyCharacters = BODY_CHARACTERS) {
    this.#open = open
    this.#bounds = bounds
    this.#bodyCharacters = bodyCharacters
  }

  /** Breadth first, each message once, without the start and the first `from` messages next to it. */
  async follow(start: Known, next: (known: readonly Known[]) => Promise<Iterable<Ref>>): Promise<Known[]> {
    const { limit, depth, width, from } = this.#bounds
    const seen = new Set([refName({ source: start.source, ...start.message })])
    const found: Known[] = []
    let edge: readonly Known[] = [start]
    for (let step = 1; edge.length > 0 && step <= depth; step++) {
      const fresh: Ref[] = []
      let skipped = step === 1 ? 0 : from
      for (const ref of await next(edge)) {
        if (seen.has(refName(ref))) continue
        if (skipped >= from && (fresh.length >= width || found.length + fresh.length >= limit)) {
          this.isCut = true
          break
        }
        seen.add(refName(ref))
        if (skipped < from) skipped++
        else fresh.push(ref)
      }
      edge = await this.read(fresh)
      found.push(...edge)
    }
    return found
  }

  /**
   * The message that emitted it, those processed together with that one, and the dead letter that it replays.
   */
  async findInputs(known: readonly Known[]): Promise<Ref[]> {
    return known.flatMap(({ source, message, gathered, replayOf }) => [
      ...gathered.map(key => ({ source: source, ...key })),
      ...(message.parent === null ? [] : [{ source: source, ...message.parent }]),
      ...(replayOf === null ? [] : [replayOf]),
    ])
  }

  /** One at a time: a message may have emitted a hundred thousand, of which a page is wanted. */
  async findOutputs(known: readonly Known[]): Promise<Iterable<Ref>> {
    const replays = await Promise.all(
      known.map(({ replayedBy }) => (replayedBy === null ? null : this.#open(replayedBy.jobId))),
    )
    return (function* () {
      for (const [at, { source, message, rows, replayedBy }] of known.entries()) {
        for (const { emitted, into } of rows) {
          if (into !== null) yield { source, route: message.route, seq: into }
          for (const { route, from, to } of emittedRanges(emitted))
            for (let seq = from; seq <= to; seq++) yield { source, route, seq }
        }
        const other = replays[at]!
        if (other !== null) yield { source: other, ...replayedBy!.key }
      }
    })()
  }

  async read(refs: readonly Ref[]): Promise<Known[]> {
    const known: Known[] = []
    for (const [source, found] of groupBy(refs, ref => ref.source)) {
      // Keys and nothing else: a store may send them to a thread.
      const keys = found.map(({ route, seq }): MessageKey => ({ route, seq }))
      for (let i = 0; i < keys.length; i += BREADTH)
        known.push(...(await this.#page(source, keys.slice(i, i + BREADTH))))
    }
    return known
  }

  async #page(source: LineageSource, keys: readonly MessageKey[]): Promise<Known[]> {
    const { store, execution } = source
    // Before the store is read: a call that becomes durable meanwhile is then known twice, instead of not at
    // all.
    const inFlight = source.hasEnded ? null : await source.live(keys)
    const live = new Map(keys.map((key, at) => [formatMessageKey(key), inFlight?.[at] ?? null]))
    const [messages, rows, gathered] = await Promise.all([
      store.findMessages(execution, keys),
      store.readLineage({ execution, keys, limit: keys.length * ROWS_PER_MESSAGE }),
      store.readGathered({ execution, into: keys, limit: this.#bounds.from + this.#bounds.limit }),
    ])
    const rowsByMessage = groupBy(rows, formatMessageKey)
    const intoByMember = await this.#leaders(source, gathered)
    const isDone = (message: MessageRow) =>
      rowsByMessage.get(formatMessageKey(message))?.at(-1)?.status === "completed"
    const dead = await this.#findDeadLetter(
      source,
      messages.filter(message => !isDone(message)),
    )
    const found = keys
      .map(key => messages.find(each => formatMessageKey(each) === formatMessageKey(key)))
      .filter(message => message !== undefined)
    return Promise.all(
      found.map(async message => {
        const name = formatMessageKey(message)
        const letter = dead.get(name)
        const stored = rowsByMessage.get(name) ?? []
        return {
          source: source,
          message: message.body.length > this.#bodyCharacters ? { ...message, body: null } : message,
          rows: stored,
          live: newer(live.get(name) ?? null, stored),
          gathered: gathered.filter(member => intoByMember.get(formatMessageKey(member)) === name),
          replayOf: await this.#findReplayed(source, message),
          replayedBy: letter === undefined ? null : await replayedBy(source, letter),
          isDead: letter !== undefined,
        }
      }),
    )
  }

  /**
   * The initial messages of a replay are numbered in the order of the dead letters that they replay, by
   * route.
   */
  async #findReplayed({ store, jobId, replayOf }: LineageSource, message: MessageRow): Promise<Ref | null> {
    if (replayOf === null || message.parent !== null) return null
    const source = await this.#open(replayOf)
    if (source === null) return null
    const { route, seq } = message
    const query = { execution: source.execution, route, replayedBy: jobId, before: seq - 1 }
    const key = await store.findReplayed(query)
    return key === null ? null : { source, ...key }
  }

  /** Each query answers for all messages before the dead letter that it finds. */
  async #findDeadLetter(
    { store, execution }: LineageSource,
    keys: readonly MessageKey[],
  ): Promise<ReadonlyMap<string, DeadLetterRow>> {
    const dead = new Map<string, DeadLetterRow>()
    let next: DeadLetterRow | undefined
    for (const key of [...keys].sort(inKeyOrder)) {
      if (next !== undefined && inKeyOrder(key, next) < 0) continue
      const after = { route: key.route, seq: key.seq - 1 }
      next = (await store.listDeadLetters({ execution, after, limit: 1 }))[0]
      if (next === undefined) break
      if (inKeyOrder(key, next) === 0) dead.set(formatMessageKey(key), next)
    }
    return dead
  }

  async #leaders(
    { store, execution }: LineageSource,
    members: readonly MessageKey[],
  ): Promise<ReadonlyMap<string, string>> {
    if (members.length === 0) return new Map()
    const rows = await store.readLineage({
      execution,
      keys: members,
      limit: members.length * ROWS_PER_MESSAGE,
    })
    return new Map(
      rows.flatMap(row =>
        row.into === null
          ? []
          : [[formatMessageKey(row), formatMessageKey({ route: row.route, seq: row.into })]],
      ),
    )
  }
}

async function replayedBy(
  { store, execution }: LineageSource,
  { route, seq, replayedBy: jobId }: DeadLetterRow,
): Promise<Known["replayedBy"]> {
  if (jobId === null) return null
  const before = await store.countReplayedBefore({ execution, route, seq, replayedBy: jobId })
  return { jobId, key: { route, seq: before + 1 } }
}

/** A delivery that is stored by now is not shown twice. */
function newer(live: LiveMessage | null, stored: readonly LineageRow[]): LiveMessage | null {
  const attempt = live?.running?.attempt ?? live?.rows[0]?.attempt
  const isStored = attempt !== undefined && stored.some(row => row.attempt >= attempt)
  return isStored ? null : live
}

const refName = ({ source, route, seq }: Ref) => `${source.jobId}/${route}:${seq}`

/** Messages and their adapter calls, as JSON for people and programs. */
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
interface MessageLink {
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
   * pending: queued, or in flight in a process that did not answer. running: in flight.
   * failed: the last try failed (the dead letters tell whether it was the final one), or a dead letter
   * without a recorded try.
   */
  readonly status: "pending" | "running" | "completed" | "failed"
  readonly invocations: readonly InvocationView[]
  readonly body: Json
  /** The body is too large to be shown in a list: request this message itself. */
  readonly body_left_out?: true
}

/** How much of the lineage is walked, in each direction. */
export interface LineageQuery {
  /** The largest number of messages; default 100. */
  readonly limit?: number | undefined
  /** The largest number of steps from the message; default: as many as there are. */
  readonly depth?: number | undefined
  /** The largest number of messages of one step; default `limit`. */
  readonly width?: number | undefined
  /** Leaves out the first messages of the first step: those of earlier pages. */
  readonly from?: number | undefined
  /** Default: both. */
  readonly direction?: "inputs" | "outputs" | undefined
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
  /** null: the process that runs the execution did not answer. */
  readonly live: (keys: readonly MessageKey[]) => Promise<LiveMessages | null>
}

/** A message of one of the executions. */
interface Ref extends MessageKey {
  readonly source: LineageSource
}

interface Known {
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
function emittedRanges(
  text: string | null,
): { readonly route: number; readonly from: number; readonly to: number }[] {
  if (text === null) return []
  return text.split(",").map(part => {
    const [route, range] = part.split(":") as [string, string]
    const [from, to = from] = range.split("-") as [string, string?]
    return { route: Number(route), from: Number(from), to: Number(to) }
  })
}

function messageView({ source, message, rows, live, gathered, isDead, ...links }: Known): MessageView {
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
