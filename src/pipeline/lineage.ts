/**
 * Where messages come from and what became of them (P5), walked over the stored rows: from any output to its inputs, and
 * back. Bounded: a walk shows at most `limit` messages, and says when there were more.
 */
import type { Json } from "../core/json.ts"
import type { PipelinePlan } from "../definition/pipeline/plan.ts"
import { UmbraError } from "../errors.ts"
import type { LineageRow, MessageKey, MessageRow, PipelineStore } from "../journal/pipeline-store.ts"

export interface InvocationView {
  readonly adapter: string
  readonly attempt: number
  readonly status: "completed" | "failed"
  readonly at: number
  readonly duration_ms: number
  /** The message that this one was gathered into. */
  readonly into: string | null
  readonly emitted: number
  readonly error: Json
}

export interface MessageView {
  readonly id: string
  /** The message that it was emitted for; null: an initial one. */
  readonly parent: string | null
  /** Messages that were processed as one with it. */
  readonly gathered: readonly string[]
  readonly correlation_id: string
  readonly at: number
  /**
   * pending: queued, or in hand for the first time. failed: the last try (dead letters say whether it was the last of
   * all), or a dead letter that no try is on record of.
   */
  readonly status: "pending" | "completed" | "failed"
  readonly invocations: readonly InvocationView[]
  readonly body: Json
  /** The body is too large to be shown beside others: ask for this message. */
  readonly body_left_out?: true
}

export interface LineageView {
  readonly message: MessageView
  /** What it comes from, the nearest first. */
  readonly inputs: readonly MessageView[]
  /** What comes from it, the nearest first. */
  readonly outputs: readonly MessageView[]
  /** There are more than are shown. */
  readonly is_cut: boolean
}

export interface LineageScene {
  readonly store: PipelineStore
  readonly plan: PipelinePlan
  readonly jobId: string
  readonly execution: number
}

/** Invocations of one message that are shown: retries without end would fill every page. */
const ROWS_PER_MESSAGE = 50
/** Messages read at a time: bodies may have a megabyte each. */
const BREADTH = 50
/** Of the messages around the one that was asked for; larger bodies are dropped as they are read. */
const BODY_CHARACTERS = 4096

export function messageName(plan: PipelinePlan, { route, seq }: MessageKey): string {
  return `${plan.routes[route]!.name}:${seq}`
}

export function messageKey(plan: PipelinePlan, name: string): MessageKey {
  const end = name.lastIndexOf(":")
  const seq = Number(name.slice(end + 1))
  if (end > 0 && Number.isSafeInteger(seq) && seq > 0)
    return { route: routePosition(plan, name.slice(0, end)), seq }
  const example = `${plan.routes[0]!.name}:1`
  throw new UmbraError(
    "E706",
    `"${name}" is no name of a message: write ROUTE:NUMBER, for example ${example}.`,
  )
}

export function routePosition({ positions, routes }: PipelinePlan, route: string): number {
  const position = positions.get(route)
  if (position !== undefined) return position
  const names = routes.map(({ name }) => name).join(", ")
  throw new UmbraError("E706", `The pipeline has no route "${route}". It has ${names}.`)
}

export async function walkLineage(scene: LineageScene, name: string, limit: number): Promise<LineageView> {
  const key = messageKey(scene.plan, name)
  const [start] = await new Walk(scene, limit, Number.POSITIVE_INFINITY).read([key])
  if (start === undefined)
    throw new UmbraError(
      "E706",
      `Job ${scene.jobId} has no message ${name}, or its lineage has been removed.`,
    )
  const up = new Walk(scene, limit)
  const inputs = await up.follow(start, known => up.inputsOf(known))
  const down = new Walk(scene, limit)
  const outputs = await down.follow(start, known => down.outputsOf(known))
  return {
    message: viewOf(scene, start),
    inputs: inputs.map(each => viewOf(scene, each)),
    outputs: outputs.map(each => viewOf(scene, each)),
    is_cut: up.isCut || down.isCut,
  }
}

interface Known {
  readonly message: Omit<MessageRow, "body"> & { readonly body: string | null }
  readonly rows: readonly LineageRow[]
  readonly gathered: readonly MessageKey[]
  /** Has no rows, and never will: it went too far (E704), or ended its process (E709). */
  readonly isDead: boolean
}

class Walk {
  readonly #scene: LineageScene
  readonly #limit: number
  readonly #bodyCharacters: number
  isCut = false

  constructor(scene: LineageScene, limit: number, bodyCharacters = BODY_CHARACTERS) {
    this.#scene = scene
    this.#limit = limit
    this.#bodyCharacters = bodyCharacters
  }

  /** Breadth first, each message once; not the one it starts from. */
  async follow(start: Known, next: (known: readonly Known[]) => readonly MessageKey[]): Promise<Known[]> {
    const seen = new Set([textOf(start.message)])
    const found: Known[] = []
    let edge: readonly Known[] = [start]
    while (edge.length > 0) {
      const fresh: MessageKey[] = []
      for (const key of next(edge)) {
        if (seen.has(textOf(key))) continue
        if (found.length + fresh.length >= this.#limit) {
          this.isCut = true
          break
        }
        seen.add(textOf(key))
        fresh.push(key)
      }
      edge = await this.read(fresh)
      found.push(...edge)
    }
    return found
  }

  /** What it was emitted for, and what was processed together with that. */
  inputsOf(known: readonly Known[]): MessageKey[] {
    return known.flatMap(({ message, gathered }) => [
      ...gathered,
      ...(message.parent === null ? [] : [message.parent]),
    ])
  }

  outputsOf(known: readonly Known[]): MessageKey[] {
    return known.flatMap(({ message, rows }) =>
      rows.flatMap(({ emitted, into }) => [
        ...(into === null ? [] : [{ route: message.route, seq: into }]),
        ...this.#keysOf(emitted),
      ]),
    )
  }

  #keysOf(emitted: string | null): MessageKey[] {
    const keys: MessageKey[] = []
    for (const { route, from, to } of emittedRanges(emitted)) {
      const end = Math.min(to, from + this.#limit)
      if (end < to) this.isCut = true
      for (let seq = from; seq <= end; seq++) keys.push({ route, seq })
    }
    return keys
  }

  async read(keys: readonly MessageKey[]): Promise<Known[]> {
    const known: Known[] = []
    for (let i = 0; i < keys.length; i += BREADTH)
      known.push(...(await this.#page(keys.slice(i, i + BREADTH))))
    return known
  }

  async #page(keys: readonly MessageKey[]): Promise<Known[]> {
    const { store, execution } = this.#scene
    const [messages, rows, gathered] = await Promise.all([
      store.findMessages(execution, keys),
      store.readLineage({ execution, keys, limit: keys.length * ROWS_PER_MESSAGE }),
      store.readGathered({ execution, into: keys, limit: this.#limit }),
    ])
    const rowsByMessage = groupBy(rows, textOf)
    const intoByMember = await this.#leaders(gathered)
    const dead = await this.#deadAmong(messages.filter(message => !rowsByMessage.has(textOf(message))))
    return keys
      .map(key => messages.find(each => textOf(each) === textOf(key)))
      .filter(message => message !== undefined)
      .map(message => ({
        message: message.body.length > this.#bodyCharacters ? { ...message, body: null } : message,
        rows: rowsByMessage.get(textOf(message)) ?? [],
        gathered: gathered.filter(member => intoByMember.get(textOf(member)) === textOf(message)),
        isDead: dead.has(textOf(message)),
      }))
  }

  /** Each question answers for all messages before the dead letter that it finds. */
  async #deadAmong(keys: readonly MessageKey[]): Promise<ReadonlySet<string>> {
    const { store, execution } = this.#scene
    const dead = new Set<string>()
    let next: MessageKey | undefined
    for (const key of [...keys].sort(byRouteAndSeq)) {
      if (next !== undefined && byRouteAndSeq(key, next) < 0) continue
      const after = { route: key.route, seq: key.seq - 1 }
      next = (await store.listDeadLetters({ execution, after, limit: 1 }))[0]
      if (next === undefined) break
      if (byRouteAndSeq(key, next) === 0) dead.add(textOf(key))
    }
    return dead
  }

  async #leaders(members: readonly MessageKey[]): Promise<ReadonlyMap<string, string>> {
    if (members.length === 0) return new Map()
    const { store, execution } = this.#scene
    const rows = await store.readLineage({
      execution,
      keys: members,
      limit: members.length * ROWS_PER_MESSAGE,
    })
    return new Map(
      rows.flatMap(row =>
        row.into === null ? [] : [[textOf(row), textOf({ route: row.route, seq: row.into })]],
      ),
    )
  }
}

function groupBy<T>(list: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of list) {
    const group = groups.get(keyOf(item))
    if (group === undefined) groups.set(keyOf(item), [item])
    else group.push(item)
  }
  return groups
}

const byRouteAndSeq = (a: MessageKey, b: MessageKey) => a.route - b.route || a.seq - b.seq

const textOf = ({ route, seq }: MessageKey) => `${route}:${seq}`

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

function viewOf({ plan, jobId }: LineageScene, { message, rows, gathered, isDead }: Known): MessageView {
  const last = rows.at(-1)
  const { adapters } = plan.routes[message.route]!
  return {
    id: messageName(plan, message),
    parent: message.parent === null ? null : messageName(plan, message.parent),
    gathered: gathered.map(key => messageName(plan, key)),
    correlation_id: `${jobId}/${message.root}`,
    at: message.at,
    status: last?.status ?? (isDead ? "failed" : "pending"),
    invocations: rows.map(row => ({
      adapter: adapters[row.adapter]!.type,
      attempt: row.attempt,
      status: row.status,
      at: row.at,
      duration_ms: row.durationUs / 1000,
      into: row.into === null ? null : messageName(plan, { route: row.route, seq: row.into }),
      emitted: emittedRanges(row.emitted).reduce((sum, { from, to }) => sum + to - from + 1, 0),
      error: row.error === null ? null : (JSON.parse(row.error) as Json),
    })),
    ...(message.body === null
      ? { body: null, body_left_out: true }
      : { body: JSON.parse(message.body) as Json }),
  }
}
