/**
 * Compares two jobs, or two moments of one job (core/view/compare.ts): reads their states from the history, and hashes
 * their outputs, in turns with other work and within bounds.
 */
import { createHash } from "node:crypto"
import type { Json, JsonObject } from "../../core/json.ts"
import { valueIn } from "../../core/maps.ts"
import { type JobState, LargeOutput, ListOutput, type Output } from "../../core/state.ts"
import {
  type ComparedJob,
  type ComparedNode,
  comparison,
  type JobComparison,
} from "../../core/view/compare.ts"
import { type JsonDiff, jsonDifference } from "../../core/view/json-diff.ts"
import { nodeView } from "../../core/view/view.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import type { Journal } from "../../journal/port/journal.ts"
import { inTurns, nextTurnIfLate, type Work } from "../../turns.ts"
import { payloadHash, textAt } from "../fact-records.ts"
import type { JobFacts } from "../facts.ts"
import { LeftOut, type Moment, type Place } from "../history.ts"

export interface CompareQuery {
  readonly a: string
  readonly b: string
  /** Absent: after its last fact. */
  readonly atA?: Moment | undefined
  readonly atB?: Moment | undefined
  /** Nodes whose outputs are compared value by value; `input`: the inputs of the jobs. */
  readonly diff?: readonly string[] | undefined
}

/** `changes` is absent if one of the values is missing or too large. */
export interface OutputDiff extends Partial<JsonDiff> {
  /** `input`: of the jobs. */
  readonly node: string
  readonly not_compared?: "missing" | "too_large"
}

export interface Compared extends JobComparison {
  readonly moments: { readonly a: Place; readonly b: Place }
  readonly diffs?: readonly OutputDiff[]
}

export interface CompareBounds {
  /** Of the facts of one job whose outputs are hashed; in bytes. */
  readonly hashedBytes: number
  /** Of a value that is compared with another; in bytes. */
  readonly diffBytes: number
}

const usualBounds: CompareBounds = { hashedBytes: 64 * 1024 * 1024, diffBytes: 2 * 1024 * 1024 }
/** Up to so many facts are read one by one; more in pages. */
const FEW = 100
const PAGE = 500
const INLINE_BYTES = 64 * 1024
const MOST_DIFFS = 20

/** Where a job has an output: in a fact, in the facts of items, or in its state. */
type Source =
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

interface Side {
  readonly jobId: string
  readonly moment: Place
  readonly job: Omit<ComparedJob, "nodes" | "input">
  readonly nodes: readonly Omit<ComparedNode, "output">[]
  readonly input: Source
  readonly outputs: ReadonlyMap<string, Source>
}

export class JobComparisons {
  readonly #journal: Journal
  readonly #facts: JobFacts
  readonly #bounds: CompareBounds

  constructor(journal: Journal, facts: JobFacts, bounds = usualBounds) {
    this.#journal = journal
    this.#facts = facts
    this.#bounds = bounds
  }

  async compare({ a, b, atA, atB, diff = [] }: CompareQuery): Promise<Compared> {
    if (diff.length > MOST_DIFFS)
      throw new UmbraError("E309", `At most ${MOST_DIFFS} outputs are compared value by value at once.`)
    const sides = [await this.#side(a, atA), await this.#side(b, atB)] as const
    for (const node of diff)
      if (node !== "input" && !sides.some(({ nodes }) => nodes.some(({ id }) => id === node)))
        throw new UmbraError("E310", `Neither job ${a} nor job ${b} has a node "${node}".`)
    const [left, right] = [await this.#hashed(sides[0]), await this.#hashed(sides[1])]
    const compared = await inTurns(comparison(left, right))
    const diffs: OutputDiff[] = []
    for (const node of diff) diffs.push(await this.#diff(node, sides))
    const moments = { a: sides[0].moment, b: sides[1].moment }
    return { ...compared, moments, ...(diff.length === 0 ? {} : { diffs }) }
  }

  #side(jobId: string, moment: Moment = { seq: Number.MAX_SAFE_INTEGER }): Promise<Side> {
    return this.#facts.stateAt(jobId, moment, ({ plan, state, seq, index, at }) => {
      const { order } = plan
      const nodes = Array.from(order, position => comparedNode(plan, state, position, at))
      const outputs = new Map<string, Source>()
      for (const [position, output] of state.outputs.entries())
        if (output !== undefined) outputs.set(plan.nodes[position]!.id, sourceOf(output))
      return {
        jobId,
        moment: { seq, index, at },
        job: {
          job_id: jobId,
          workflow: state.workflow,
          workflow_version: state.workflowVersion,
          status: state.status,
          definition: plan.hash,
          took_ms: (state.finishedAt ?? at) - state.createdAt,
          usage: Object.fromEntries(state.usage),
        },
        nodes,
        input: sourceOf(state.input),
        outputs,
      }
    })
  }

  async #hashed({ jobId, job, nodes, input, outputs }: Side): Promise<ComparedJob> {
    const hashes = await this.#readHashes(jobId, [input, ...outputs.values()])
    return inTurns(
      (function* (): Work<ComparedJob> {
        const compared: ComparedNode[] = []
        for (const node of nodes) {
          const source = outputs.get(node.id)
          const output = source === undefined ? null : hashOf(source, hashes)
          compared.push(output === undefined ? node : { ...node, output })
          yield
        }
        return { ...job, input: hashOf(input, hashes) ?? "", nodes: compared }
      })(),
    )
  }

  /** The hashes of payloads by seq and field. Those beyond the bounds are left out. */
  async #readHashes(jobId: string, sources: readonly Source[]): Promise<ReadonlyMap<string, string>> {
    const { hashedBytes } = this.#bounds
    const wanted = new Map<string, Map<number, string[]>>()
    let bytes = 0
    for (const { seq, field, bytes: more, holder = jobId } of sources.flatMap(placesOf)) {
      bytes += more
      if (bytes > hashedBytes) break
      valueIn(
        valueIn(wanted, holder, () => new Map()),
        seq,
        () => [],
      ).push(field)
    }
    const hashes = new Map<string, string>()
    let read = 0
    for (const [holder, fields] of wanted) {
      const found = fields.size <= FEW ? this.#oneByOne(holder, fields) : this.#inPages(holder, fields)
      for await (const { seq, data } of found) {
        // The sizes of results that a fork has taken over are known only now.
        read += data.length
        if (read > hashedBytes) return hashes
        for (const field of fields.get(seq) ?? []) {
          const text = payloadIn(data, field)
          if (text !== null) hashes.set(keyOf({ seq, field }), payloadHash(text))
        }
        await nextTurnIfLate()
      }
    }
    return hashes
  }

  async *#oneByOne(jobId: string, wanted: ReadonlyMap<number, unknown>): AsyncGenerator<ReadFact> {
    for (const seq of wanted.keys()) {
      const data = await this.#journal.readFact(jobId, seq)
      if (data !== null) yield { seq, data }
    }
  }

  async *#inPages(jobId: string, wanted: ReadonlyMap<number, unknown>): AsyncGenerator<ReadFact> {
    let [first, last] = [Number.POSITIVE_INFINITY, 0]
    for (const seq of wanted.keys()) {
      first = Math.min(first, seq)
      last = Math.max(last, seq)
    }
    for (let after = first - 1; after < last; ) {
      const query = { jobId, after, upTo: last, limit: PAGE, inlineBytes: INLINE_BYTES }
      const rows = await this.#journal.readFactPage(query)
      for (const { seq, data } of rows) {
        if (!wanted.has(seq)) continue
        const text = data ?? (await this.#journal.readFact(jobId, seq))
        if (text !== null) yield { seq, data: text }
      }
      if (rows.length < PAGE) return
      after = rows.at(-1)!.seq
    }
  }

  async #diff(node: string, [a, b]: readonly [Side, Side]): Promise<OutputDiff> {
    const [from, to] = [a, b].map(side => (node === "input" ? side.input : side.outputs.get(node)))
    if (from === undefined || to === undefined) return { node, not_compared: "missing" }
    const { diffBytes } = this.#bounds
    if (sizeOf(from) > diffBytes || sizeOf(to) > diffBytes) return { node, not_compared: "too_large" }
    const left = await this.#whole(a.jobId, from, { left: diffBytes })
    const right = await this.#whole(b.jobId, to, { left: diffBytes })
    if (left === undefined || right === undefined) return { node, not_compared: "too_large" }
    return { node, ...(await inTurns(jsonDifference(left, right))) }
  }

  /** undefined: it has more bytes than are left. */
  async #whole(jobId: string, source: Source, bytes: { left: number }): Promise<Json | undefined> {
    if ("value" in source) return source.value
    if (!("list" in source)) {
      const { seq, field, holder = jobId } = source
      const text = payloadIn((await this.#journal.readFact(holder, seq)) ?? "null", field)
      bytes.left -= text?.length ?? 0
      return bytes.left < 0 ? undefined : (JSON.parse(text ?? "null") as Json)
    }
    const list: Json[] = []
    for (const item of source.list) {
      const value = await this.#whole(jobId, item, bytes)
      if (value === undefined) return undefined
      list.push(value)
    }
    return list
  }
}

interface ReadFact {
  readonly seq: number
  readonly data: string
}

function comparedNode(
  plan: Plan,
  state: JobState,
  position: number,
  now: number,
): Omit<ComparedNode, "output"> {
  const view = nodeView(state, position, now)
  const { starts, items } = plan.dependencies
  const before = [...items.subarray(starts[position]!, starts[position + 1]!), ...plan.nodes[position]!.reads]
  const hasBegun = view.started_at !== null || view.finished_at !== null || view.last_attempt !== undefined
  return {
    id: view.id,
    definition: definitionHash(plan, position),
    reads: [...new Set(before)].map(read => plan.nodes[read]!.id),
    status: view.status,
    attempts: hasBegun ? view.attempt : 0,
    took_ms: view.finished_at === null || view.queued_at === null ? null : view.finished_at - view.queued_at,
    usage: view.usage ?? {},
    error: view.error,
  }
}

/** Cached: a plan is shared by all its jobs. */
const definitions = new WeakMap<Plan, Map<number, string>>()

function definitionHash(plan: Plan, position: number): string {
  const { canonical, pipeline, hash } = plan
  if (pipeline !== null) return hash
  const known = valueIn(definitions, plan, () => new Map<number, string>())
  return valueIn(known, position, () => {
    const nodes = ((canonical as JsonObject).nodes ?? []) as readonly Json[]
    return payloadHash(JSON.stringify(nodes[position] ?? null))
  })
}

/** The JSON text of a payload. The output of a node that waited for a signal may be the data of the signal. */
function payloadIn(data: string, field: string): string | null {
  const path = field.split(".").map(step => (/^\d+$/.test(step) ? Number(step) : step))
  const text = textAt(data, path)
  return text === null && field === "output" ? textAt(data, ["data"]) : text
}

/** Payloads that the history leaves out are named by their facts. */
function sourceOf(output: Output): Source {
  if (output instanceof LargeOutput) {
    const { seq, bytes, jobId: holder } = output
    return { seq, field: "output", bytes, holder }
  }
  if (output instanceof ListOutput) return { list: output.outputs.map(item => sourceOf(item ?? null)) }
  const left: unknown = output
  if (left instanceof LeftOut) return { seq: left.seq, field: left.field, bytes: left.bytes }
  return { value: output }
}

function placesOf(source: Source): readonly Exclude<Source, { value: Json } | { list: unknown }>[] {
  if ("list" in source) return source.list.flatMap(placesOf)
  return "value" in source ? [] : [source]
}

function sizeOf(source: Source): number {
  if ("value" in source) return 0
  return placesOf(source).reduce((sum, { bytes }) => sum + bytes, 0)
}

function keyOf({ seq, field }: { readonly seq: number; readonly field: string }): string {
  return `${seq}.${field}`
}

/** Of a list: from the hashes of its items. undefined: it is not known. */
function hashOf(source: Source, hashes: ReadonlyMap<string, string>): string | undefined {
  if ("value" in source) return payloadHash(JSON.stringify(source.value))
  if (!("list" in source)) return hashes.get(keyOf(source))
  const whole = createHash("sha256").update("list")
  for (const item of source.list) {
    const hash = hashOf(item, hashes)
    if (hash === undefined) return undefined
    whole.update(hash)
  }
  return whole.digest("hex")
}
