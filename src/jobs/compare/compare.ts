/**
 * Compares two jobs, or two moments of one job (core/view/compare.ts): reads their states from the history, and hashes
 * their outputs, in time slices and within bounds.
 */
import { createHash } from "node:crypto"
import type { Json, JsonObject } from "../../core/json.ts"
import { valueIn } from "../../core/maps.ts"
import {
  type ComparedJob,
  type ComparedNode,
  comparison,
  type JobComparison,
  type ValueVerdicts,
} from "../../core/view/compare.ts"
import type { ItemCounts } from "../../core/view/item-view.ts"
import { type DiffBounds, type JsonDiff, jsonDifference } from "../../core/view/json-diff.ts"
import { type NodeView, nodeView } from "../../core/view/view.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import type { Journal } from "../../journal/port/journal.ts"
import { atOnce, inTurns, nextTurnIfLate, type Work } from "../../turns.ts"
import { elements, factPages, payloadHash, payloadIn } from "../fact-records.ts"
import type { JobFacts } from "../facts.ts"
import { type Moment, type Place, type Source, toSource } from "../history.ts"

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
  /** Facts that are read to compare outputs with different hashes by value. */
  readonly facts: number
}

const usualBounds: CompareBounds = {
  hashedBytes: 64 * 1024 * 1024,
  diffBytes: 2 * 1024 * 1024,
  facts: 1000,
}
/** To know whether two values differ. */
const firstChange = { changes: 1, values: 100_000 }
/** Up to so many facts are read one by one; more in pages. */
const FEW = 100
const PAGE = 500
const INLINE_BYTES = 64 * 1024
const MOST_DIFFS = 20

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
    const [left, right] = [
      await this.#hashed(sides[0], listLengths(sides[1])),
      await this.#hashed(sides[1], listLengths(sides[0])),
    ]
    const verdicts = await this.#byValue(sides, left, right)
    const compared = await inTurns(comparison(left, right, verdicts))
    const diffs: OutputDiff[] = []
    for (const node of diff) diffs.push({ node, ...(await this.#diff(nodeSources(node, sides), sides)) })
    const moments = { a: sides[0].moment, b: sides[1].moment }
    return { ...compared, moments, ...(diff.length === 0 ? {} : { diffs }) }
  }

  async #side(jobId: string, moment: Moment = { seq: Number.MAX_SAFE_INTEGER }): Promise<Side> {
    // Only what needs the state, which is released after the call: the rest runs in time slices.
    const { plan, views, startedAt, ...side } = await this.#facts.stateAt(jobId, moment, past => {
      const { plan, state, seq, index, at } = past
      const outputs = new Map<string, Source>()
      for (const [position, output] of state.outputs.entries())
        if (output !== undefined) outputs.set(plan.nodes[position]!.id, toSource(output))
      return {
        ...{ jobId, plan, outputs, moment: { seq, index, at } },
        job: {
          job_id: jobId,
          workflow: state.workflow,
          workflow_version: state.workflowVersion === 0 ? null : state.workflowVersion,
          status: state.status,
          definition: plan.hash,
          took_ms: (state.finishedAt ?? at) - state.createdAt,
          usage: Object.fromEntries(state.usage),
        },
        startedAt: state.startAt ?? state.createdAt,
        views: Array.from(plan.order, position => nodeView(state, position, at)),
        input: toSource(state.input),
      }
    })
    return { ...side, nodes: await inTurns(comparedNodes(plan, views, startedAt)) }
  }

  /** `lengths`: by node whose output is in the facts of items in the other job, how many these are. */
  async #hashed(side: Side, lengths: ReadonlyMap<string, number>): Promise<ComparedJob> {
    const { jobId, job, nodes, input, outputs } = side
    const lists = new Map<string, number>()
    for (const [node, length] of lengths) {
      const output = outputs.get(node)
      if (output !== undefined && "seq" in output) lists.set(placeKey(output), length)
    }
    const hashes = await this.#readHashes(jobId, [input, ...outputs.values()], lists)
    return inTurns(
      (function* (): Work<ComparedJob> {
        const compared: ComparedNode[] = []
        for (const node of nodes) {
          const source = outputs.get(node.id)
          const output = source === undefined ? null : hashSource(source, hashes, lengths.get(node.id))
          compared.push(output === undefined ? node : { ...node, output })
          yield
        }
        const inputHash = hashSource(input, hashes)
        return { ...job, ...(inputHash === undefined ? {} : { input: inputHash }), nodes: compared }
      })(),
    )
  }

  /** The hashes of payloads by seq and field. Those beyond the bounds are left out. `lists`: as in `valueHash`. */
  async #readHashes(
    jobId: string,
    sources: readonly Source[],
    lists: ReadonlyMap<string, number>,
  ): Promise<ReadonlyMap<string, string>> {
    const { hashedBytes } = this.#bounds
    const wanted = new Map<string, Map<number, string[]>>()
    let bytes = 0
    for (const { seq, field, bytes: more, holder = jobId } of sources.flatMap(collectPlaces)) {
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
          const key = placeKey({ seq, field })
          if (text !== null) hashes.set(key, await inTurns(valueHash(text, lists.get(key))))
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
    const query = { jobId, after: first - 1, upTo: last, limit: PAGE, inlineBytes: INLINE_BYTES }
    for await (const { seq, data } of factPages(this.#journal, query)) {
      if (!wanted.has(seq)) continue
      const text = data ?? (await this.#journal.readFact(jobId, seq))
      if (text !== null) yield { seq, data: text }
    }
  }

  /** Equal objects have different hashes if their keys are in another order. */
  async #byValue(sides: Sides, left: ComparedJob, right: ComparedJob): Promise<ValueVerdicts> {
    const equal = new Set<string | null>()
    const byHash = new Set<string | null>()
    const bounds = { facts: this.#bounds.facts, bytes: this.#bounds.hashedBytes / 2 }
    const compare = async (name: string | null, [from, to]: Sources) => {
      if (from === undefined || to === undefined) return
      bounds.facts -= collectPlaces(from).length + collectPlaces(to).length
      bounds.bytes -= countBytes(from) + countBytes(to)
      const isWithin = bounds.facts >= 0 && bounds.bytes >= 0
      const { changes, complete } = isWithin ? await this.#diff([from, to], sides, firstChange) : {}
      if (changes === undefined || (changes.length === 0 && !complete)) byHash.add(name)
      else if (changes.length === 0) equal.add(name)
    }
    // Two moments of one job have one input, however large.
    if (left.job_id === right.job_id) equal.add(null)
    else if (left.input && right.input && left.input !== right.input)
      await compare(null, [sides[0].input, sides[1].input])
    const others = new Map(right.nodes.map(({ id, output }) => [id, output]))
    for (const { id, output } of left.nodes) {
      const other = others.get(id)
      if (output && other && output !== other)
        await compare(id, [sides[0].outputs.get(id), sides[1].outputs.get(id)])
    }
    return { equal, byHash }
  }

  async #diff([from, to]: Sources, [a, b]: Sides, bounds?: DiffBounds): Promise<Omit<OutputDiff, "node">> {
    if (from === undefined || to === undefined) return { not_compared: "missing" }
    const { diffBytes } = this.#bounds
    if (countBytes(from) > diffBytes || countBytes(to) > diffBytes) return { not_compared: "too_large" }
    const left = await this.#whole(a.jobId, from, { left: diffBytes })
    const right = await this.#whole(b.jobId, to, { left: diffBytes })
    if (left === undefined || right === undefined) return { not_compared: "too_large" }
    return inTurns(jsonDifference(left, right, bounds))
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

type Sides = readonly [Side, Side]
type Sources = readonly [Source | undefined, Source | undefined]

/** `input`: of the jobs. */
function nodeSources(node: string, [a, b]: Sides): Sources {
  return node === "input" ? [a.input, b.input] : [a.outputs.get(node), b.outputs.get(node)]
}

interface ReadFact {
  readonly seq: number
  readonly data: string
}

/** `views`: in the order of the plan. */
function* comparedNodes(
  plan: Plan,
  views: readonly NodeView[],
  startedAt: number,
): Work<Omit<ComparedNode, "output">[]> {
  const nodes: Omit<ComparedNode, "output">[] = []
  for (const [index, position] of plan.order.entries()) {
    nodes.push(comparedNode(plan, views[index]!, position, startedAt))
    yield
  }
  return nodes
}

function comparedNode(
  plan: Plan,
  view: NodeView,
  position: number,
  startedAt: number,
): Omit<ComparedNode, "output"> {
  const { starts, items } = plan.dependencies
  const before = [...items.subarray(starts[position]!, starts[position + 1]!), ...plan.nodes[position]!.reads]
  // A node that was never ready has ended without an attempt: skipped, behind a failure, or with a result that was taken over.
  // So has one that was cancelled while it was queued. The start of an attempt that ended may be unknown in old journals.
  const hasEnded = view.finished_at !== null && view.status !== "CANCELLED"
  const hasBegun =
    view.queued_at !== null &&
    view.status !== "SKIPPED" &&
    (view.started_at !== null || hasEnded || view.last_attempt !== undefined)
  return {
    id: view.id,
    definition: definitionHash(plan, position),
    reads: [...new Set(before)].map(read => plan.nodes[read]!.id),
    status: view.status,
    attempts: hasBegun ? view.attempt : 0,
    began_ms: view.queued_at === null ? null : Math.max(0, view.queued_at - startedAt),
    took_ms: view.finished_at === null || view.queued_at === null ? null : view.finished_at - view.queued_at,
    usage: view.usage ?? {},
    error: view.error,
    ...(view.items === undefined || view.finished_at !== null ? {} : { items: doneItems(view.items) }),
  }
}

function doneItems({ total, completed = 0, skipped = 0, failed = 0, cancelled = 0 }: ItemCounts) {
  return { done: completed + skipped + failed + cancelled, total }
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

function collectPlaces(source: Source): readonly Exclude<Source, { value: Json } | { list: unknown }>[] {
  if ("list" in source) return source.list.flatMap(collectPlaces)
  return "value" in source ? [] : [source]
}

function countBytes(source: Source): number {
  if ("value" in source) return 0
  return collectPlaces(source).reduce((sum, { bytes }) => sum + bytes, 0)
}

function placeKey({ seq, field }: { readonly seq: number; readonly field: string }): string {
  return `${seq}.${field}`
}

/** `length`: as in `valueHash`. undefined: it is not known. */
function hashSource(
  source: Source,
  hashes: ReadonlyMap<string, string>,
  length?: number,
): string | undefined {
  if ("value" in source) return atOnce(valueHash(JSON.stringify(source.value), length))
  if (!("list" in source)) return hashes.get(placeKey(source))
  const items: string[] = []
  for (const item of source.list) {
    const hash = hashSource(item, hashes)
    if (hash === undefined) return undefined
    items.push(hash)
  }
  return listHash(items)
}

/** `length`: the value is compared with a list of so many items, each of which has a hash of its own. */
function* valueHash(text: string, length?: number): Work<string> {
  if (length === undefined || !text.startsWith("[")) return payloadHash(text)
  const hashes: string[] = []
  for (const element of elements(text)) {
    if (hashes.push(payloadHash(element)) > length) break
    yield
  }
  return hashes.length === length ? listHash(hashes) : payloadHash(text)
}

function listHash(items: readonly string[]): string {
  const whole = createHash("sha256").update("list")
  for (const item of items) whole.update(item)
  return whole.digest("hex")
}

function listLengths({ outputs }: Side): ReadonlyMap<string, number> {
  const lengths = new Map<string, number>()
  for (const [node, output] of outputs) if ("list" in output) lengths.set(node, output.list.length)
  return lengths
}
