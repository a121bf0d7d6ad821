/**
 * A plan's graph as plain text, drawn like a running job: chains go straight down, branches are indented. Each node and
 * each queue appears once, and no edge is left out: edges that the lines cannot show are listed after them.
 */
import type { Plan } from "../../definition/plan.ts"
import { treeOf } from "../live/tree.ts"
import type { PipelinePicture } from "./pipeline-picture.ts"
import { count, type Paint, printable, width } from "./terminal.ts"

type Row = readonly [drawn: string, ...columns: string[]]

export function treeGraph(plan: Plan, paint: Paint): string {
  const rows = treeOf(plan).map(({ node, branch }): Row => {
    const { id, handler, when, forEach } = plan.nodes[node]!
    const { starts, items } = plan.dependencies
    const before = [...items.subarray(starts[node], starts[node + 1])].map(at => plan.nodes[at]!.id)
    const notes = [
      // A single dependency is the node above it.
      before.length > 1 ? `after ${before.join(", ")}` : "",
      when === null ? "" : "when",
      forEach === null ? "" : "for each",
    ]
    return [`${branch}${printable(id)}`, printable(handler), printable(notes.filter(Boolean).join(" · "))]
  })
  return text(`${plan.name}  ${count(plan.nodes.length, "node")}`, rows, paint)
}

export function treePipeline(picture: PipelinePicture, paint: Paint): string {
  const { name, routes } = picture
  const rows = new Queues(picture).rows()
  return text(`${name}  ${count(routes.length, "route")}`, [["queue", "route", "adapters"], ...rows], paint)
}

/** Label with the kind of the messages in the queue; "default" is not shown. */
type Step = readonly [kind: string, to: number]

/** Starts at the queues of initial messages and follows what routes emit. Routes may form a cycle. */
class Queues {
  readonly #picture: PipelinePicture
  readonly #drawn = new Set<number>()
  readonly #rows: Row[] = []

  constructor(picture: PipelinePicture) {
    this.#picture = picture
  }

  rows(): readonly Row[] {
    const { init, routes } = this.#picture
    this.#below(
      init.map(to => ["default", to]),
      "",
    )
    // Routes that no message can reach are mistakes, and must be visible.
    for (const to of routes.keys()) if (!this.#drawn.has(to)) this.#below([["default", to]], "")
    return this.#rows
  }

  #below(steps: readonly Step[], indent: string): void {
    for (const [index, step] of steps.entries()) {
      const isLast = index === steps.length - 1
      const [mark, further] = steps.length === 1 ? ["", ""] : isLast ? ["└ ", "  "] : ["├ ", "│ "]
      const isNew = this.#draw(step, `${indent}${mark}`)
      if (isNew) this.#below(this.#picture.routes[step[1]]!.outbound, `${indent}${further}`)
    }
  }

  /** false: the queue was drawn above. */
  #draw([kind, to]: Step, branch: string): boolean {
    const { name, inbound, adapters, run_on } = this.#picture.routes[to]!
    const queue = `${branch}${kind === "default" ? "" : `${printable(kind)}: `}${printable(inbound)}`
    const chain = adapters.map(printable).join(" → ")
    if (this.#drawn.has(to)) {
      this.#rows.push([`${queue} ↑`])
      return false
    }
    this.#drawn.add(to)
    this.#rows.push([queue, printable(name), run_on === "workers" ? `${chain}  (on workers)` : chain])
    return true
  }
}

function text(title: string, rows: readonly Row[], paint: Paint): string {
  const columns = [0, 1].map(at => Math.max(...rows.map(row => width(row[at] ?? ""))))
  const lines = rows.map(row =>
    row
      .map((cell, at) => `${cell}${" ".repeat(Math.max(0, (columns[at] ?? 0) - width(cell)))}`)
      .join("  ")
      .trimEnd(),
  )
  return `${[paint.bold(printable(title)), ...lines].join("\n")}\n`
}
