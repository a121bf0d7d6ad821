/** Messages around one message, in columns: left where it comes from, right what came of it. */

export interface Invocation {
  readonly adapter: string
  readonly attempt: number
  readonly status: "running" | "completed" | "failed"
  readonly at: string
  readonly duration_ms: number
  readonly into: string | null
  readonly emitted: number
  readonly error: { readonly code: string; readonly message: string } | null
}

export interface Message {
  readonly job_id: string
  readonly id: string
  readonly parent: string | null
  readonly replay_of: { readonly job_id: string; readonly message: string } | null
  readonly replayed_by: { readonly job_id: string; readonly message: string } | null
  readonly gathered: readonly string[]
  readonly at: string
  readonly status: "pending" | "running" | "completed" | "failed"
  readonly invocations: readonly Invocation[]
  readonly body: unknown
  readonly body_left_out?: true
}

export const WIDTH = 136
export const HEIGHT = 44
const GAP_X = 36
const GAP_Y = 10
const PADDING = 4

export interface PlacedMessage {
  readonly message: Message
  readonly key: string
  /** Negative: it comes before; 0: the message itself. */
  readonly column: number
  readonly x: number
  readonly y: number
}

export interface LineageLayout {
  readonly messages: readonly PlacedMessage[]
  readonly path: string
  readonly width: number
  readonly height: number
  /** The middle of the message itself. */
  readonly centre: number
}

const jobMessageKey = ({ job_id, id }: Pick<Message, "job_id" | "id">) => `${job_id} ${id}`

export function layoutLineage(
  start: Message,
  inputs: readonly Message[],
  outputs: readonly Message[],
): LineageLayout {
  const known = new Map([...inputs, ...outputs, start].map(message => [jobMessageKey(message), message]))
  const edges = [...known.values()].flatMap(to =>
    sourceKeys(to)
      .filter(from => known.has(from))
      .map(from => [from, jobMessageKey(to)] as const),
  )
  const columns = new Map([[jobMessageKey(start), 0]])
  assign(
    inputs,
    columns,
    -1,
    edges.map(([from, to]) => [to, from] as const),
  )
  assign(outputs, columns, 1, edges)
  const first = Math.min(...columns.values())
  const last = Math.max(...columns.values())
  const sizes = new Map<number, number>()
  for (const column of columns.values()) sizes.set(column, (sizes.get(column) ?? 0) + 1)
  const most = Math.max(...sizes.values())
  const height = 2 * PADDING + most * (HEIGHT + GAP_Y) - GAP_Y
  const rows = new Map<number, number>()
  const messages = [...columns].map(([key, column]): PlacedMessage => {
    const row = rows.get(column) ?? 0
    rows.set(column, row + 1)
    const taken = sizes.get(column)! * (HEIGHT + GAP_Y) - GAP_Y
    const x = PADDING + (column - first) * (WIDTH + GAP_X)
    return { message: known.get(key)!, key, column, x, y: (height - taken) / 2 + row * (HEIGHT + GAP_Y) }
  })
  const places = new Map(messages.map(placed => [placed.key, placed]))
  const path = edges.map(([from, to]) => edge(places.get(from)!, places.get(to)!)).join("")
  const width = 2 * PADDING + (last - first + 1) * (WIDTH + GAP_X) - GAP_X
  return { messages, path, width, height, centre: PADDING - first * (WIDTH + GAP_X) + WIDTH / 2 }
}

/** The keys of the messages that it derives from. */
function sourceKeys({ job_id, parent, gathered, replay_of }: Message): string[] {
  return [
    ...(parent === null ? [] : [`${job_id} ${parent}`]),
    ...gathered.map(id => `${job_id} ${id}`),
    ...(replay_of === null ? [] : [`${replay_of.job_id} ${replay_of.message}`]),
  ]
}

/** The nearest come first, so the column of what leads to a message is known before its own. */
function assign(
  messages: readonly Message[],
  columns: Map<string, number>,
  step: 1 | -1,
  edges: readonly (readonly [from: string, to: string])[],
): void {
  const before = new Map<string, string[]>()
  for (const [from, to] of edges) before.set(to, [...(before.get(to) ?? []), from])
  for (const message of messages) {
    const key = jobMessageKey(message)
    if (columns.has(key)) continue
    const near = (before.get(key) ?? []).flatMap(from => {
      const column = columns.get(from)
      return column === undefined || column * step < 0 ? [] : [column * step]
    })
    columns.set(key, step * (1 + Math.min(...near, ...(near.length === 0 ? [0] : []))))
  }
}

function edge(from: PlacedMessage, to: PlacedMessage): string {
  const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2]
  if (x2 <= x1) return `M${x1} ${y1}C${x1 + 20} ${y1} ${x2 - 20} ${y2} ${x2} ${y2}`
  const turn = x2 - GAP_X / 2
  return `M${x1} ${y1}H${turn}V${y2}H${x2}`
}
