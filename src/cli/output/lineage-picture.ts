/** A message's lineage as a tree: its ancestors above, its descendants below. */
import type { Lineage, Message } from "../../client/index.ts"
import { latencyText } from "./routes-table.ts"
import { count, type Paint, printable, shorten } from "./terminal.ts"

export function lineagePicture(
  { message, inputs, outputs, is_cut }: Lineage,
  paint: Paint,
  room = 200,
): string[] {
  if (message === null) return []
  const draw = new Picture(paint, room)
  const above = new Map(inputs.map(each => [keyOf(each.job_id, each.id), each]))
  const below = new Map(outputs.map(each => [keyOf(each.job_id, each.id), each]))
  return [
    ...draw.inputs(message, above),
    ...draw.message(message, paint.bold("● "), below.size > 0 ? "│ " : "  "),
    ...draw.outputs(message, below),
    ...(is_cut ? [paint.dim("… more messages exist: raise --limit, or show one of these messages.")] : []),
  ]
}

/** By job and message: across a replay, messages of two jobs may have the same name. */
type Known = ReadonlyMap<string, Message>

const keyOf = (job: string, id: string) => `${job}/${id}`
const linked = (link: Message["replay_of"]) => (link === null ? [] : [keyOf(link.job_id, link.message)])

class Picture {
  readonly #paint: Paint
  readonly #room: number
  readonly #drawn = new Set<string>()

  constructor(paint: Paint, room: number) {
    this.#paint = paint
    this.#room = room
  }

  /** From the farthest to the nearest. Branches open upwards. */
  inputs(of: Message, known: Known, indent = ""): string[] {
    const own = [...(of.parent === null ? [] : [of.parent]), ...of.gathered]
    const found = this.#fresh([...own.map(id => keyOf(of.job_id, id)), ...linked(of.replay_of)], known)
    return found.flatMap((each, i) => {
      const [mark, further] = i === 0 ? ["┌ ", "  "] : ["├ ", "│ "]
      return [
        ...this.inputs(each, known, `${indent}${further}`),
        ...this.message(each, `${indent}${mark}`, `${indent}│ `),
      ]
    })
  }

  outputs(of: Message, known: Known, indent = ""): string[] {
    const into = of.invocations.flatMap(each => each.into ?? [])
    const emitted = [...known.values()]
      .filter(({ parent, job_id }) => parent === of.id && job_id === of.job_id)
      .map(({ id }) => id)
    const own = [...into, ...emitted].map(id => keyOf(of.job_id, id))
    const found = this.#fresh([...own, ...linked(of.replayed_by)], known)
    return found.flatMap((each, i) => {
      const isLast = i === found.length - 1
      const further = `${indent}${isLast ? "  " : "│ "}`
      const own = this.message(each, `${indent}${isLast ? "└ " : "├ "}`, further)
      return [...own, ...this.outputs(each, known, further)]
    })
  }

  /** Messages are drawn once: batches have many inputs, and cycles return to a message. */
  #fresh(ids: readonly string[], known: Known): Message[] {
    const fresh = [...new Set(ids)].filter(id => known.has(id) && !this.#drawn.has(id))
    for (const id of fresh) this.#drawn.add(id)
    return fresh.map(id => known.get(id)!)
  }

  message(message: Message, mark: string, below: string): string[] {
    const { id, status, invocations, gathered, replay_of } = message
    const parts = [
      gathered.length === 0 ? "" : `with ${count(gathered.length, "message")} gathered`,
      replay_of === null ? "" : `replays ${printable(replay_of.message)} of job ${replay_of.job_id}`,
    ]
    const many = parts.filter(Boolean).join("  ")
    const body = message.body_left_out ? "(large)" : JSON.stringify(message.body)
    const head = `${mark}${printable(id)}  ${this.#status(status)}  ${many === "" ? "" : `${many}  `}`
    const rest = this.#room - mark.length - id.length - status.length - many.length - 8
    return [
      `${head}${this.#paint.dim(shorten(printable(body), Math.max(10, rest)))}`,
      ...invocations.map(each => this.#invocation(each, `${this.#paint.dim(below)}  `)),
    ]
  }

  #invocation(invocation: Message["invocations"][number], indent: string): string {
    const { adapter, attempt, status, duration_ms, emitted, into, error } = invocation
    const fault = error as { readonly code?: string; readonly message?: string } | null
    const parts = [
      printable(adapter),
      this.#status(status),
      into === null ? `${latencyText(duration_ms)}${status === "running" ? " so far" : ""}` : "",
      attempt > 1 ? `attempt ${attempt}` : "",
      emitted > 0 ? `→ ${count(emitted, "message")}` : "",
      into === null ? "" : `gathered into ${printable(into)}`,
      fault === null ? "" : this.#paint.red(shorten(printable(`${fault.code} ${fault.message}`), this.#room)),
    ]
    return `${indent}${parts.filter(Boolean).join("  ")}`
  }

  #status(status: Message["status"]): string {
    if (status === "completed") return this.#paint.green(status)
    return status === "failed" ? this.#paint.red(status) : this.#paint.yellow(status)
  }
}
