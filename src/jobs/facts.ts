/** The journal of a job as an interface: pages of its facts, their payloads, and its graph at any past moment. */
import { setTimeout as sleep } from "node:timers/promises"
import { type CompiledGraph, compiledGraph } from "../core/compiled-graph.ts"
import { waiterFor } from "../core/decide/items.ts"
import type { JobSubmitted } from "../core/facts.ts"
import { findFactHolder } from "../core/fork.ts"
import type { Json, JsonObject } from "../core/json.ts"
import type { FactRecord } from "../core/payloads.ts"
import type { JobState } from "../core/state.ts"
import { type ItemView, itemViews } from "../core/view/item-view.ts"
import { type GraphView, graphView, type NodeView, type WaitingOn } from "../core/view/view.ts"
import { checkSignalData } from "../definition/input/checks.ts"
import { type ConfigQuery, type NodeConfig, nodeConfig } from "../engine/dispatch/node-config.ts"
import { JobArtifacts } from "../engine/owner/job-artifacts.ts"
import { type LoadParts, readJobs } from "../engine/recovery/fold.ts"
import type { JobCommand } from "../engine/remote/commands.ts"
import { UmbraError } from "../errors.ts"
import type { FactRow } from "../journal/port/journal.ts"
import { inTurns, nextTurnIfLate, type Work } from "../turns.ts"
import { checkCommand, noSuchJob } from "./arguments.ts"
import { elements, factRecord, payloadHash, payloadIn, payloadText, textAt } from "./fact-records.ts"
import {
  History,
  type HistoryOptions,
  LeftOut,
  type Moment,
  type Past,
  type Place,
  type Source,
} from "./history.ts"
import { type PastRoute, routesAt } from "./past-routes.ts"

/** A page ends with the fact that exceeds this size, as it is stored. */
const PAGE_BYTES = 4 * 1024 * 1024
/** How often the data of a signal is checked while its waits change, and how long what they are may take to be stored. */
const MOST_CHECKS = 100
const CHECKED_AGAIN_MS = 20
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

interface Sending<T> {
  readonly maxSignalBytes: number
  /** The state of the job, if it is in the memory of this process. */
  readonly live: () => JobState | undefined
  readonly send: (command: JobCommand) => Promise<T>
}

/** As a page of items now, without the live overlay. */
export interface ItemsAt {
  readonly items: readonly ItemView[]
  readonly next: number | null
  readonly moment: Place
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
    const late = nextTurnIfLate()
    if (late !== undefined) await late
    const facts: FactRecord[] = []
    let bytes = 0
    for (const row of rows) {
      if (bytes > PAGE_BYTES) return { facts, next: nextCursor(facts) }
      const data = row.data ?? (await journal.readFact(jobId, row.seq))
      if (data === null) return { facts, next: null }
      facts.push(factRecord(row, data, before + facts.length + 1))
      bytes += row.bytes
    }
    return { facts, next: facts.length === limit ? nextCursor(facts) : null }
  }

  /** The JSON text of a payload, or of the value at a path in it, and its hash. Also of a fact that a fork refers to. */
  async payload(
    jobId: string,
    { seq, field, path = [] }: { seq: number; field: string; path?: readonly (string | number)[] },
  ): Promise<{ readonly text: string; readonly hash: string }> {
    const row = (await this.#row(jobId, seq)) ?? (await this.#reusedRow(jobId, seq))
    const data = row?.data ?? (row && (await this.#parts.journal.readFact(row.jobId, seq)))
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

  /** The type is in the row, which is found by its key. */
  async #row(jobId: string, seq: number): Promise<FactRow | undefined> {
    const query = { jobId, after: seq - 1, limit: 1, inlineBytes: PAGE_BYTES }
    return (await this.#parts.journal.readFactPage(query)).find(found => found.seq === seq)
  }

  /** A fact of another job whose result this one has taken over. */
  async #reusedRow(jobId: string, seq: number): Promise<FactRow | undefined> {
    const { fork } = await this.#submission(jobId)
    const holder = fork === undefined ? undefined : findFactHolder(fork, seq)
    return holder === undefined ? undefined : this.#row(holder, seq)
  }

  async #submission(jobId: string): Promise<JobSubmitted> {
    const { journal } = this.#parts
    const [first] = await journal.readFactPage({ jobId, after: -1, limit: 1, inlineBytes: PAGE_BYTES })
    const data = first && (first.data ?? (await journal.readFact(jobId, first.seq)))
    if (!data) throw noSuchJob(jobId)
    return JSON.parse(data) as JobSubmitted
  }

  /** The compiled graph of the definition that the job runs. */
  async readCompiledGraph(jobId: string): Promise<VersionGraph> {
    const plan = await this.#parts.plans.ofJob(await this.#submission(jobId))
    return { hash: plan.hash, ...(await inTurns(compiledGraph(plan))) }
  }

  /** The definition that the job runs, as it is stored. */
  async readDefinition(jobId: string): Promise<JsonObject> {
    return (await this.#parts.plans.ofJob(await this.#submission(jobId))).document as JsonObject
  }

  /**
   * Sends a command. The data of a signal fits the schema that the job's workflow declares for signals of its name, or else that of
   * the handler's wait that takes it, and has its defaults. Throws E317. Its owner refuses data that was checked with the schema
   * of another wait: so the job is read only if a wait has a schema, and no data is taken by a wait that it was not checked for.
   */
  async send<T>(
    jobId: string,
    requested: JobCommand,
    { maxSignalBytes, live, send }: Sending<T>,
  ): Promise<T> {
    const command = checkCommand(requested, maxSignalBytes)
    if (command.type !== "signal") return send(command)
    const submission = await this.#submission(jobId)
    const { nodes } = await this.#parts.plans.ofJob(submission)
    const { name, data } = command
    const artifacts = new JobArtifacts(this.#parts.journal, Date.now)
    await artifacts.check(submission.owner, data)
    const check = async (schema: JsonObject) => {
      const fitting = await checkSignalData({ name, schema }, data, submission.owner)
      // A default of the schema may be a reference.
      await artifacts.check(submission.owner, fitting)
      return fitting
    }
    const declared = nodes.find(({ signal }) => signal?.name === name)?.signal?.schema
    if (declared !== undefined) return send({ ...command, data: await check(declared) })
    const schemaNow = async () => {
      const state = live() ?? (await this.history.state(jobId, { seq: Number.MAX_SAFE_INTEGER })).state
      return waiterFor(state, name)?.waiting.schema ?? null
    }
    let schema = live() === undefined ? null : await schemaNow()
    for (let tries = 1; ; tries++)
      try {
        const fitting = schema === null ? data : await check(schema)
        return await send({ ...command, data: fitting, checkedWith: schema })
      } catch (error) {
        const isRefused = error instanceof UmbraError && error.code === "E312"
        // With a token the refusal may be about that; otherwise what the owner has seen may not be stored yet.
        if (!isRefused || tries === MOST_CHECKS) throw error
        const before = JSON.stringify(schema)
        schema = await schemaNow()
        if (JSON.stringify(schema) !== before) continue
        if (command.resumeToken !== undefined) throw error
        await sleep(CHECKED_AGAIN_MS)
      }
  }

  /** The compiled graph of a version; also of one that was deleted, whose jobs may still be read. */
  async compiledGraph(key: { owner: string; name: string; version: number }): Promise<VersionGraph> {
    const plan = await this.#parts.plans.get(key.owner, key.name, key.version)
    return { hash: plan.hash, ...(await inTurns(compiledGraph(plan))) }
  }

  /** The config of a node as it was rendered for an attempt, with secrets masked. */
  async config(jobId: string, node: string, query: ConfigQuery = {}): Promise<NodeConfig> {
    const rows = (await readJobs(this.#parts, [jobId])).get(jobId)
    if (rows === undefined) throw noSuchJob(jobId)
    return nodeConfig(this.#parts, rows, node, query)
  }

  /** Reads the state after the last fact of a moment, without payloads. */
  stateAt<T>(jobId: string, moment: Moment, read: (past: Past) => T): Promise<T> {
    return this.history.at(jobId, moment, past => {
      mustBeThere(jobId, past, moment)
      return read(past)
    })
  }

  /** `graphView` of the facts up to the moment, at the time of the last of them. There is no live overlay. */
  async graphAt(jobId: string, moment: Moment): Promise<GraphAt> {
    const { plan, place, view } = await this.stateAt(jobId, moment, ({ plan, state, seq, index, at }) => {
      return { plan, place: { seq, index, at }, view: graphView(state, { now: at }) }
    })
    const graph = { ...(await this.#withPayloads(jobId, view)), moment: place }
    if (plan.pipeline === null) return graph
    const at = "time" in moment ? moment.time : place.at
    return { ...graph, routes: await routesAt(this.#parts.journal, { jobId, pipeline: plan.pipeline, at }) }
  }

  /** A page of the items of a node with `for_each`, at the time of the last fact of a moment. */
  async itemsAt(
    jobId: string,
    id: string,
    { at: moment, after = -1, limit = 100 }: { at: Moment; after?: number; limit?: number },
  ): Promise<ItemsAt> {
    const found = await this.stateAt(jobId, moment, ({ state, seq, index, at }) => {
      const node = nodePosition(state, jobId, id)
      const views = itemViews(state, node, { after, limit, now: at })
      const total = state.lists.get(node)?.items.length ?? 0
      return { views, total, list: this.history.listAt(state, node), moment: { seq, index, at } }
    })
    const { views, total, list } = found
    const last = after + views.length
    const values = list === null ? [] : await this.#elements(jobId, list, after + 1, last + 1)
    const items: ItemView[] = []
    for (const [place, view] of views.entries())
      items.push({ ...(await this.#whole(jobId, view)), item: values[place] ?? null })
    return { items, next: views.length > 0 && last + 1 < total ? last : null, moment: found.moment }
  }

  /** Elements of a list, from an index up to another. */
  async #elements(
    jobId: string,
    { of, path }: { readonly of: Source; readonly path: readonly (string | number)[] },
    from: number,
    to: number,
  ): Promise<readonly Json[]> {
    if ("list" in of) {
      const values: Json[] = []
      for (const item of of.list.slice(from, to))
        values.push("value" in item ? item.value : JSON.parse(await this.#text(jobId, item)))
      return values
    }
    const text = "value" in of ? JSON.stringify(of.value) : await this.#text(jobId, of)
    return inTurns(someElements(textAt(text, path) ?? "[]", from, to))
  }

  /** The JSON text of a payload that a state of the past leaves out; `null` if its job is gone. */
  async #text(jobId: string, source: Source): Promise<string> {
    if (!("seq" in source)) return "null"
    const data = await this.#parts.journal.readFact(source.holder ?? jobId, source.seq)
    return (data && payloadIn(data, source.field)) ?? "null"
  }

  /** With the payloads that a node or an item shows: its preview, and the output that a signal has by default. */
  async #whole<T extends Pick<NodeView, "preview" | "waiting_on">>(jobId: string, of: T): Promise<T> {
    const read = async (value: unknown): Promise<Json> => {
      const { seq, field } = value as LeftOut
      return JSON.parse((await this.payload(jobId, { seq, field })).text) as Json
    }
    const { preview, waiting_on } = of
    let whole = of
    if (isLeftOut(preview)) whole = { ...whole, preview: await read(preview) }
    if (waiting_on?.kind === "signal" && isLeftOut(waiting_on.default))
      whole = { ...whole, waiting_on: { ...waiting_on, default: await read(waiting_on.default) } }
    return whole
  }

  async #withPayloads(jobId: string, view: FoldedGraph): Promise<FoldedGraph> {
    const nodes: NodeView[] = []
    for (const node of view.nodes) nodes.push(await this.#whole(jobId, node))
    const waits = new Map(nodes.map(({ id, waiting_on }) => [id, waiting_on]))
    const waiting_for = view.waiting_for.map(({ node }) => ({ node, ...(waits.get(node) as WaitingOn) }))
    return { ...view, nodes, waiting_for }
  }
}

/** With the index of its last fact: the next page need not count. */
function nextCursor(facts: readonly FactRecord[]): string {
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

function* someElements(text: string, from: number, to: number): Work<readonly Json[]> {
  const found: Json[] = []
  let index = 0
  for (const element of elements(text)) {
    if (index >= to) break
    if (index++ >= from) found.push(JSON.parse(element) as Json)
    yield
  }
  return found
}

/** Throws E310 if the job has no such node. */
export function nodePosition(state: JobState, jobId: string, id: string): number {
  const node = state.graph.nodes.findIndex(found => found.id === id)
  if (node >= 0) return node
  throw new UmbraError("E310", `Job ${jobId} has no node "${id}". Its graph lists its nodes.`)
}

function isLeftOut(value: unknown): boolean {
  return value instanceof LeftOut
}

function mustBeThere(jobId: string, { index }: Past, moment: Moment): void {
  if (index === 0) throw new UmbraError("E313", `Job ${jobId} has no fact at or before this moment.`)
  if ("index" in moment && index < moment.index)
    throw new UmbraError("E313", `Job ${jobId} has only ${index} facts, no fact #${moment.index}.`)
}
