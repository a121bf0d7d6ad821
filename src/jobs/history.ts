/**
 * Jobs at past moments: the state after any of a job's facts, folded from the store.
 *
 * 1. Nothing is stored for it. A large job leaves checkpoints in memory, at most `CACHE_BYTES` for all jobs of the
 *    process; the jobs that were not read for the longest time are evicted.
 * 2. The first request for a moment of a job folds the whole job, in turns with other work. Later ones fold from the
 *    checkpoint before the moment.
 * 3. These states contain no payloads: `LeftOut` and `LargeOutput` name the facts that have them.
 */
import { apply } from "../core/apply/apply.ts"
import type { Fact } from "../core/facts.ts"
import type { Json } from "../core/json.ts"
import { payloadFields, WHOLE_BYTES } from "../core/payloads.ts"
import { type JobState, LargeOutput, ListOutput, newJobState, type Output } from "../core/state.ts"
import { Checkpoint } from "../core/view/checkpoints.ts"
import type { Plan } from "../definition/plan.ts"
import { parseIsoTime } from "../engine/clock.ts"
import type { LoadParts } from "../engine/recovery/fold.ts"
import { UmbraError } from "../errors.ts"
import type { FactRow } from "../journal/port/journal.ts"
import { inTurns, type Work } from "../turns.ts"
import { noSuchJob } from "./arguments.ts"

const CACHE_BYTES = 64 * 1024 * 1024
/** Facts of a page. */
const PAGE = 500
/** Facts between two checkpoints. Doubled for a job whose checkpoints would fill the cache. */
const SPACING = 1000

/** A moment of a job: after the facts up to this seq, after this many facts, or the last one before a later time. */
export type Moment = { readonly seq: number } | { readonly index: number } | { readonly time: number }

/** Reads `#12` as an index, a number as a seq, and an ISO 8601 time with its zone. null: it is none of these. */
export function parseMoment(text: string): Moment | null {
  if (/^#[1-9]\d{0,14}$/.test(text)) return { index: Number(text.slice(1)) }
  if (/^\d{1,15}$/.test(text)) return { seq: Number(text) }
  const time = parseIsoTime(text)
  return time === null ? null : { time }
}

export function noMoment(text: string): UmbraError {
  return new UmbraError(
    "E309",
    `"${text}" is not a moment: use the seq of a fact, #INDEX, or a time with its zone, such as 2026-11-15T12:00:00Z.`,
  )
}

/** The last fact of a moment. */
export interface Place {
  readonly seq: number
  /** From 1; 0: before the first fact. */
  readonly index: number
  readonly at: number
}

export interface Past extends Place {
  readonly plan: Plan
  /** The caller may change it, unless it was passed to a reader. */
  readonly state: JobState
}

/** A payload that a state of the past leaves out. */
export class LeftOut {
  readonly seq: number
  readonly field: string
  /** Of the whole fact, or of its share. */
  readonly bytes: number
  /** Read where the length of a list counts (core/payloads.ts). */
  readonly $payload: { readonly count: number }

  constructor({ seq, bytes }: Pick<FactRow, "seq" | "bytes">, field: string, value: unknown) {
    this.seq = seq
    this.field = field
    this.bytes = bytes
    this.$payload = { count: Array.isArray(value) ? value.length : 0 }
  }
}

/** Where a state of the past has a value: in a fact, in the facts of items, or in itself. */
export type Source =
  | {
      readonly seq: number
      readonly field: string
      /** Of the whole fact; 0: not known. */
      readonly bytes: number
      /** The job that has the fact, of which a fork has taken it over. Absent: the job itself. */
      readonly holder?: string | undefined
    }
  | { readonly list: readonly Source[] }
  | { readonly value: Json }

export function toSource(output: Output): Source {
  if (output instanceof LargeOutput) {
    const { seq, bytes, jobId: holder } = output
    return { seq, field: "output", bytes, holder }
  }
  if (output instanceof ListOutput) return { list: output.outputs.map(item => toSource(item ?? null)) }
  const left: unknown = output
  if (left instanceof LeftOut) return { seq: left.seq, field: left.field, bytes: left.bytes }
  return { value: output }
}

/** Where the list of a node with `for_each` is: in a fact, in the output of a node, or at a path in the input. */
type ListPlace = Source | { readonly node: number } | { readonly input: readonly (string | number)[] }

interface Mark extends Place {
  /** The latest `at` of all facts up to here. */
  readonly latest: number
  readonly checkpoint: Checkpoint
}

interface Timeline {
  readonly plan: Plan
  readonly marks: Mark[]
  spacing: number
  /** Memory of the checkpoints, and what was counted for it. */
  bytes: number
  counted: Set<object>
  /** All facts that the job had at the first request have been folded. */
  isBuilt: boolean
}

/** A fold on its way through the facts of a job. */
interface Walk {
  readonly timeline: Timeline
  readonly state: JobState
  place: Place
  latest: number
}

export interface HistoryOptions {
  readonly cacheBytes?: number
  /** Facts between two checkpoints. */
  readonly spacing?: number
}

const beforeAll: Place = { seq: -1, index: 0, at: 0 }

export class History {
  readonly #parts: LoadParts
  readonly #cacheBytes: number
  readonly #spacing: number
  /** The one that was used last is at the end. */
  readonly #timelines = new Map<string, Timeline>()
  readonly #building = new Map<string, Promise<unknown>>()
  /** By the items of a list as a state has them, which its checkpoints share. */
  readonly #lists = new WeakMap<readonly Json[], ListPlace>()

  constructor(parts: LoadParts, { cacheBytes = CACHE_BYTES, spacing = SPACING }: HistoryOptions = {}) {
    this.#parts = parts
    this.#cacheBytes = cacheBytes
    this.#spacing = spacing
  }

  /** Memory of all checkpoints, as estimated. */
  get bytes(): number {
    let sum = 0
    for (const { bytes } of this.#timelines.values()) sum += bytes
    return sum
  }

  /** Reads the job at a moment. After the first call for a job, every other moment of it is near a checkpoint. */
  async at<T>(jobId: string, moment: Moment, read: (past: Past) => T): Promise<T> {
    for (let other = this.#building.get(jobId); other !== undefined; other = this.#building.get(jobId))
      await other.catch(() => {})
    const known = this.#timelines.get(jobId)
    if (known?.isBuilt) return read(await this.state(jobId, moment))
    const building = this.#build(jobId, moment, read).finally(() => this.#building.delete(jobId))
    this.#building.set(jobId, building)
    return building
  }

  /** The state at a moment, folded no further than necessary. */
  async state(jobId: string, moment: Moment): Promise<Past> {
    const walk = await this.#start(jobId, moment)
    await this.#walk(jobId, walk, moment)
    this.#keep(jobId, walk.timeline)
    return toPast(walk)
  }

  /** The items of a node with `for_each`, at a path in a value. null: there is no such list yet. */
  listAt(
    state: JobState,
    node: number,
  ): { readonly of: Source; readonly path: readonly (string | number)[] } | null {
    const list = state.lists.get(node)
    if (list === undefined) return null
    const place = this.#lists.get(list.items) ?? { value: list.items }
    if ("node" in place) return { of: toSource(state.outputs[place.node] ?? null), path: [] }
    return "input" in place ? { of: toSource(state.input), path: place.input } : { of: place, path: [] }
  }

  #noteLists(state: JobState, fact: Fact): void {
    const note = (node: number, place: ListPlace) => {
      const list = state.lists.get(node)
      if (list !== undefined) this.#lists.set(list.items, place)
    }
    if (fact.type === "node_expanded")
      note(fact.node, fact.items_of ?? toSource((fact.items as Output | undefined) ?? null))
    else if (fact.type === "job_submitted")
      for (const entry of fact.fork?.nodes ?? []) {
        if (!("list" in entry)) continue
        const { list, node } = entry
        const holder = "seq" in list ? fact.fork!.jobs[list.job] : undefined
        note(node, "seq" in list ? { seq: list.seq, field: "items", bytes: 0, holder } : list)
      }
  }

  async #build<T>(jobId: string, moment: Moment, read: (past: Past) => T): Promise<T> {
    const walk = await this.#start(jobId, moment)
    await this.#walk(jobId, walk, moment)
    const result = read(toPast(walk))
    await this.#walk(jobId, walk, end)
    walk.timeline.isBuilt = true
    this.#keep(jobId, walk.timeline)
    return result
  }

  /** From the last checkpoint that is not after the moment. */
  async #start(jobId: string, moment: Moment): Promise<Walk> {
    const timeline = this.#timelines.get(jobId) ?? (await this.#newTimeline(jobId))
    const mark = timeline.marks.findLast(found => isWithin(moment, found, found.latest))
    if (mark === undefined) {
      const latest = Number.NEGATIVE_INFINITY
      return { timeline, state: newJobState(timeline.plan), place: beforeAll, latest }
    }
    const { seq, index, at, latest } = mark
    return { timeline, state: mark.checkpoint.restore(), place: { seq, index, at }, latest }
  }

  async #newTimeline(jobId: string): Promise<Timeline> {
    const { journal, plans, largeOutputBytes: inlineBytes } = this.#parts
    const [first] = await journal.readFactPage({ jobId, after: -1, limit: 1, inlineBytes })
    if (first === undefined) throw noSuchJob(jobId)
    const fact = await this.#slimFact(first)
    if (fact.type !== "job_submitted")
      throw new UmbraError("E507", `Job ${jobId} does not begin with its submission.`)
    const plan = await plans.ofJob(fact)
    return { plan, marks: [], spacing: this.#spacing, bytes: 0, counted: new Set(), isBuilt: false }
  }

  /** Folds facts up to the moment. */
  async #walk(jobId: string, walk: Walk, moment: Moment): Promise<void> {
    const { journal, largeOutputBytes: inlineBytes } = this.#parts
    for (;;) {
      const limit = Math.min(PAGE, "index" in moment ? moment.index - walk.place.index : PAGE)
      const after = walk.place.seq
      const upTo = "seq" in moment && moment.seq < Number.MAX_SAFE_INTEGER ? moment.seq : undefined
      if (limit <= 0 || (upTo !== undefined && upTo <= after)) return
      const rows = await journal.readFactPage({ jobId, after, upTo, limit, inlineBytes })
      const large = new Map<number, Fact>()
      for (const row of rows) if (row.data === null) large.set(row.seq, await this.#slimFact(row))
      const isThere = await inTurns(this.#fold(walk, rows, large, moment))
      if (isThere || rows.length < limit) return
    }
  }

  /** true: the next fact is after the moment. */
  *#fold(
    walk: Walk,
    rows: readonly FactRow[],
    large: ReadonlyMap<number, Fact>,
    moment: Moment,
  ): Work<boolean> {
    for (const { data, ...row } of rows) {
      const { seq, at } = row
      const place = { seq, index: walk.place.index + 1, at }
      const latest = Math.max(walk.latest, at)
      if (!isWithin(moment, place, latest)) return true
      const fact = data === null ? large.get(seq)! : slim({ ...row, data })
      apply(walk.state, fact)
      this.#noteLists(walk.state, fact)
      walk.place = place
      walk.latest = latest
      this.#mark(walk)
      yield
    }
    return false
  }

  async #slimFact({ data, ...row }: FactRow): Promise<Fact> {
    const text = data ?? (await this.#parts.journal.readFact(row.jobId, row.seq))
    if (text === null)
      throw new UmbraError("E507", `Fact ${row.seq} of job ${row.jobId} does not exist any more.`)
    return slim({ ...row, data: text })
  }

  #mark({ timeline, state, place, latest }: Walk): void {
    const { marks } = timeline
    const before = marks.at(-1)
    if (place.index - (before?.index ?? 0) < timeline.spacing) return
    const checkpoint = new Checkpoint(state, before?.checkpoint)
    marks.push({ ...place, latest, checkpoint })
    timeline.bytes += checkpoint.bytes(timeline.counted)
    if (timeline.bytes > this.#cacheBytes / 2) thin(timeline)
  }

  /** A job without a checkpoint is folded in a moment: it needs no place. */
  #keep(jobId: string, timeline: Timeline): void {
    this.#timelines.delete(jobId)
    if (timeline.marks.length > 0) this.#timelines.set(jobId, timeline)
    for (const oldest of this.#timelines.keys()) {
      if (this.bytes <= this.#cacheBytes) return
      this.#timelines.delete(oldest)
    }
  }
}

const end: Moment = { seq: Number.MAX_SAFE_INTEGER }

function toPast({ timeline: { plan }, state, place }: Walk): Past {
  return { plan, state, ...place }
}

/** `latest`: of all facts up to this place. A time means the longest prefix whose facts were all decided by then. */
function isWithin(moment: Moment, { seq, index }: Place, latest: number): boolean {
  if ("seq" in moment) return seq <= moment.seq
  return "index" in moment ? index <= moment.index : latest <= moment.time
}

/** Removes every second checkpoint, but not the only one; what the others share with them stays. */
function thin(timeline: Timeline): void {
  timeline.spacing *= 2
  if (timeline.marks.length < 2) return
  const kept = timeline.marks.filter((_, i) => i % 2 === 1)
  timeline.marks.splice(0, timeline.marks.length, ...kept)
  timeline.counted = new Set()
  timeline.bytes = kept.reduce((sum, { checkpoint }) => sum + checkpoint.bytes(timeline.counted), 0)
}

/** The fact without its payloads. Those of a short fact stay, except outputs: a job has one for every node and item. */
function slim(row: Omit<FactRow, "data"> & { readonly data: string }): Fact {
  const { seq, at, type, bytes, data } = row
  const fields = JSON.parse(data) as { [field: string]: unknown }
  const leaveOut = (of: { [field: string]: unknown }, name: string, field: string) => {
    if (of[name] === undefined) return
    if (field === "output") of[name] = new LargeOutput(seq, bytes)
    else if (bytes > WHOLE_BYTES && field === "pinned") of[name] = pinnedLeftOut(row, of[name] as unknown[])
    else if (bytes > WHOLE_BYTES) of[name] = new LeftOut(row, field, of[name])
  }
  for (const field of payloadFields(type)) {
    const [name, inner] = field.split(".") as [string, string?]
    if (inner === undefined) leaveOut(fields, name, field)
    else leaveOut(fields[name] as { [field: string]: unknown }, inner, field)
  }
  return { ...fields, type, at } as unknown as Fact
}

/** The outputs that the request of a fork has set, one by one: each is the output of a node. */
function pinnedLeftOut(
  { seq, bytes }: Pick<FactRow, "seq" | "bytes">,
  outputs: readonly unknown[],
): LeftOut[] {
  const share = Math.ceil(bytes / outputs.length)
  return outputs.map((output, index) => new LeftOut({ seq, bytes: share }, `pinned.${index}`, output))
}
