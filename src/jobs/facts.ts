/** The journal of a job as an interface: pages of its facts, their payloads, and its graph at any past moment. */
import { type CompiledGraph, compiledGraph } from "../core/compiled-graph.ts"
import type { Json } from "../core/json.ts"
import type { FactRecord } from "../core/payloads.ts"
import { type GraphView, graphView, type NodeView, type WaitingOn } from "../core/view/view.ts"
import { type ConfigQuery, type NodeConfig, nodeConfig } from "../engine/dispatch/node-config.ts"
import { type LoadParts, readJobs } from "../engine/recovery/fold.ts"
import { UmbraError } from "../errors.ts"
import { noSuchJob } from "./arguments.ts"
import { factRecord, payloadHash, payloadText, textAt } from "./fact-records.ts"
import { History, type HistoryOptions, LeftOut, type Moment, type Past, type Place } from "./history.ts"
import { type PastRoute, routesAt } from "./past-routes.ts"

/** A page ends with the fact that exceeds this size, as it is stored. */
const PAGE_BYTES = 4 * 1024 * 1024
/** Larger facts are read one by one, so that a page stops in time. */
const INLINE_BYTES = 8 * 1024

export interface FactPageQuery {
  /** Only facts after this seq. */
  readonly after?: number | undefined
  /** The index of the fact with that seq. Absent: it is counted. */
  readonly index?: number | undefined
  readonly limit: number
}

export interface FactPage {
  readonly facts: readonly FactRecord[]
  /** `after` of the next page, if this one is full: then it never changes. null: facts may follow later. */
  readonly next: string | null
}

export interface VersionGraph extends CompiledGraph {
  /** Of the definition. */
  readonly hash: string
}

/** Without the fields that are not from facts. */
type FoldedGraph = Omit<GraphView, "routes" | "dead_letters" | "live" | "unseen_operations">

/** The graph after the last fact of a moment. */
export interface GraphAt extends FoldedGraph {
  readonly moment: Place
  /** For a pipeline; null: not recorded, or not kept any more. */
  readonly routes?: readonly PastRoute[] | null
}

export class JobFacts {
  readonly history: History
  readonly #parts: LoadParts

  constructor(parts: LoadParts, options?: HistoryOptions) {
    this.#parts = parts
    this.history = new History(parts, options)
  }

  /** Oldest first. Reads as many rows as the page has, unless the index of the first must be counted. */
  async page(jobId: string, { after = -1, index, limit }: FactPageQuery): Promise<FactPage> {
    const { journal } = this.#parts
    const rows = await journal.readFactPage({ jobId, after, limit, inlineBytes: INLINE_BYTES })
    if (rows.length === 0 && after < 0) throw noSuchJob(jobId)
    if (rows.length === 0) return { facts: [], next: null }
    const before = after < 0 ? 0 : (index ?? (await journal.countFacts(jobId, after)))
    const facts: FactRecord[] = []
    let bytes = 0
    for (const row of rows) {
      if (bytes > PAGE_BYTES) return { facts, next: nextOf(facts) }
      const data = row.data ?? (await journal.readFact(jobId, row.seq))
      if (data === null) return { facts, next: null }
      facts.push(factRecord(row, data, before + facts.length + 1))
      bytes += row.bytes
    }
    return { facts, next: facts.length === limit ? nextOf(facts) : null }
  }

  /** The JSON text of a payload, or of the value at a path in it, and its hash. */
  async payload(
    jobId: string,
    { seq, field, path = [] }: { seq: number; field: string; path?: readonly (string | number)[] },
  ): Promise<{ readonly text: string; readonly hash: string }> {
    const { journal } = this.#parts
    // The type is in the row, which is found by its key.
    const query = { jobId, after: seq - 1, limit: 1, inlineBytes: PAGE_BYTES }
    const row = (await journal.readFactPage(query)).find(found => found.seq === seq)
    const data = row?.data ?? (row && (await journal.readFact(jobId, seq)))
    const whole = data && payloadText({ type: row!.type, data }, field)
    if (!whole) throw new UmbraError("E313", `Fact ${seq} of job ${jobId} has no payload "${field}".`)
    const text = textAt(whole, path)
    if (text === null)
      throw new UmbraError(
        "E313",
        `Payload "${field}" of fact ${seq} of job ${jobId} has no value at this path.`,
      )
    return { text, hash: payloadHash(text) }
  }

  /** The compiled graph of a version; also of one that was deleted, whose jobs may still be read. */
  async compiledGraph(key: { owner: string; name: string; version: number }): Promise<VersionGraph> {
    const plan = await this.#parts.plans.get(key.owner, key.name, key.version)
    return { hash: plan.hash, ...compiledGraph(plan) }
  }

  /** The config of a node as it was rendered for an attempt, with secrets masked. */
  async config(jobId: string, node: string, query: ConfigQuery = {}): Promise<NodeConfig> {
    const rows = (await readJobs(this.#parts, [jobId])).get(jobId)
    if (rows === undefined) throw noSuchJob(jobId)
    return nodeConfig(this.#parts, rows, node, query)
  }

  /** `graphView` of the facts up to the moment, at the time of the last of them. There is no live overlay. */
  async graphAt(jobId: string, moment: Moment): Promise<GraphAt> {
    const { plan, place, view } = await this.history.at(jobId, moment, past => {
      mustBeThere(jobId, past, moment)
      const { plan, state, seq, index, at } = past
      return { plan, place: { seq, index, at }, view: graphView(state, { now: at }) }
    })
    const graph = { ...(await this.#withPayloads(jobId, view)), moment: place }
    if (plan.pipeline === null) return graph
    const at = "time" in moment ? moment.time : place.at
    return { ...graph, routes: await routesAt(this.#parts.journal, { jobId, pipeline: plan.pipeline, at }) }
  }

  /** Reads the payloads that the graph shows: previews, and the outputs that signals have by default. */
  async #withPayloads(jobId: string, view: FoldedGraph): Promise<FoldedGraph> {
    const read = async (value: unknown): Promise<Json> => {
      const { seq, field } = value as LeftOut
      return JSON.parse((await this.payload(jobId, { seq, field })).text) as Json
    }
    const nodes: NodeView[] = []
    for (const node of view.nodes) {
      const { preview, waiting_on } = node
      let whole = node
      if (isLeftOut(preview)) whole = { ...whole, preview: await read(preview) }
      if (waiting_on?.kind === "signal" && isLeftOut(waiting_on.default))
        whole = { ...whole, waiting_on: { ...waiting_on, default: await read(waiting_on.default) } }
      nodes.push(whole)
    }
    const waits = new Map(nodes.map(({ id, waiting_on }) => [id, waiting_on]))
    const waiting_for = view.waiting_for.map(({ node }) => ({ node, ...(waits.get(node) as WaitingOn) }))
    return { ...view, nodes, waiting_for }
  }
}

/** With the index of its last fact: the next page need not count. */
function nextOf(facts: readonly FactRecord[]): string {
  const { seq, index } = facts.at(-1)!
  return `${seq}.${index}`
}

/** Reads `next` of a page, or the seq of a fact. */
export function factsAfter(after: string | undefined): Pick<FactPageQuery, "after" | "index"> {
  const [seq, index] = after?.split(".") ?? []
  return {
    after: seq === undefined ? undefined : Number(seq),
    index: index === undefined ? undefined : Number(index),
  }
}

function isLeftOut(value: unknown): boolean {
  return value instanceof LeftOut
}

function mustBeThere(jobId: string, { index }: Past, moment: Moment): void {
  if (index === 0) throw new UmbraError("E313", `Job ${jobId} has no fact at or before this moment.`)
  if ("index" in moment && index < moment.index)
    throw new UmbraError("E313", `Job ${jobId} has only ${index} facts, no fact #${moment.index}.`)
}
