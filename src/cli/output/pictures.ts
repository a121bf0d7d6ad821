/**
 * A workflow's graph, or a pipeline's routes and queues, as Mermaid, Graphviz, JSON or plain text. In Mermaid and
 * Graphviz nodes are named by position, so no id can break the syntax. As text they are drawn like a running job: chains go
 * straight down, branches are indented.
 */
import type { PipelinePlan } from "../../definition/pipeline/plan.ts"
import type { Plan } from "../../definition/plan.ts"
import { buildTree, drawTree, nodeDependencies } from "../live/tree.ts"
import { asJson, tableLines } from "./print.ts"
import { count, type Paint, printable } from "./terminal.ts"

/** `title`: of a workflow; a job has none. */
export function mermaid(direction: "TD" | "LR", lines: readonly string[], title?: string): string {
  const head = title === undefined ? [] : ["---", `title: ${JSON.stringify(title)}`, "---"]
  return `${[...head, `flowchart ${direction}`, ...lines].join("\n")}\n`
}

/** Mermaid reads Markdown, HTML and its own `#…;` codes in labels: all characters except plain text are written as codes. */
const mermaidText = (text: string): string =>
  text.replace(/[^\p{L}\p{N} _.:/-]/gu, character => `#${character.codePointAt(0)};`)

/** A text, and below it a smaller one, which is written as it is. */
export const mermaidLabel = (text: string, small: string): string =>
  `"${mermaidText(text)}<br/><small>${small}</small>"`

/** Routes emit messages of the kind `default`, unless they name another. */
export const mermaidArrow = (kind: string): string =>
  kind === "default" ? "-->" : `-->|${mermaidText(kind)}|`

function mermaidGraph({ name, nodes, dependencies }: Plan): string {
  const shapes = nodes.map(({ id, handler, when }, i) => {
    const label = mermaidLabel(id, mermaidText(handler))
    return `  n${i}${when === null ? `[${label}]` : `{{${label}}}`}`
  })
  return mermaid("TD", [...shapes, ...edges(dependencies).map(([from, to]) => `  n${from} --> n${to}`)], name)
}

/** A queue is drawn next to the route that reads it, and has the same number. */
function mermaidPipeline({ name }: Plan, { routes, init }: PipelinePlan): string {
  const lines = [
    "  begin((init))",
    ...routes.flatMap(({ name, inbound, adapters }, i) => [
      `  q${i}[("${mermaidText(inbound)}")]`,
      `  r${i}[${mermaidLabel(name, adapters.map(({ type }) => mermaidText(type)).join(" → "))}]`,
      `  q${i} --> r${i}`,
    ]),
    ...firstRoutes(init).map(to => `  begin --> q${to}`),
    ...routes.flatMap(({ outbound }, i) =>
      [...outbound].map(([kind, to]) => `  r${i} ${mermaidArrow(kind)} q${to}`),
    ),
  ]
  return mermaid("LR", lines, name)
}

function dot(name: string, lines: readonly string[]): string {
  return `${[`digraph "${dotText(name)}" {`, ...lines, "}"].join("\n")}\n`
}

/** In a quoted string of Graphviz a backslash starts an escape, and a line break would be kept. */
const dotText = (text: string): string => text.replace(/["\\]/g, "\\$&").replace(/\r\n|\r|\n/g, "\\n")
const dotStyle = '  node [shape=box, style=rounded, fontname="sans-serif"]'

function dotGraph({ name, nodes, dependencies }: Plan): string {
  const shapes = nodes.map(({ id, handler, when }, i) => {
    const style = when === null ? "" : ', style="rounded,dashed"'
    return `  n${i} [label="${dotText(id)}\\n${dotText(handler)}"${style}]`
  })
  return dot(name, [dotStyle, ...shapes, ...edges(dependencies).map(([from, to]) => `  n${from} -> n${to}`)])
}

function dotPipeline({ name }: Plan, { routes, init }: PipelinePlan): string {
  return dot(name, [
    "  rankdir=LR",
    dotStyle,
    '  begin [label="init", shape=circle]',
    ...routes.flatMap(({ name, inbound, adapters }, i) => [
      `  q${i} [label="${dotText(inbound)}", shape=cylinder, style=""]`,
      `  r${i} [label="${dotText(name)}\\n${adapters.map(({ type }) => dotText(type)).join(" → ")}"]`,
      `  q${i} -> r${i}`,
    ]),
    ...firstRoutes(init).map(to => `  begin -> q${to}`),
    ...routes.flatMap(({ outbound }, i) =>
      [...outbound].map(([kind, to]) => {
        const label = kind === "default" ? "" : ` [label="${dotText(kind)}"]`
        return `  r${i} -> q${to}${label}`
      }),
    ),
  ])
}

function jsonGraph({ name, nodes, dependencies, order, inDegrees, exits }: Plan): string {
  const id = (position: number): string => nodes[position]!.id
  return asJson({
    name,
    nodes: nodes.map(({ id, handler, when }) => ({ id, handler, conditional: when !== null })),
    edges: edges(dependencies).map(([from, to]) => ({ from: id(from), to: id(to) })),
    entries: nodes.filter((_, i) => inDegrees[i] === 0).map(node => node.id),
    exits: [...exits].map(id),
    order: [...order].map(id),
    levels: levels(order, dependencies).map(level => level.map(id)),
  })
}

function jsonPipeline({ name }: Plan, { routes, init, maxHops }: PipelinePlan): string {
  const queue = (position: number): string => routes[position]!.inbound
  return asJson({
    name,
    max_hops: maxHops,
    init: firstRoutes(init).map(queue),
    routes: routes.map(({ name, inbound, adapters, outbound, runOn }) => ({
      name,
      inbound,
      adapters: adapters.map(({ type }) => type),
      run_on: runOn,
      outbound: Object.fromEntries([...outbound].map(([kind, to]) => [kind, queue(to)])),
    })),
  })
}

/** Positions of the routes that read initial messages, each once. */
function firstRoutes(init: PipelinePlan["init"]): number[] {
  return [...new Set(init.map(({ route }) => route))]
}

type Dependencies = Plan["dependencies"]

/** Positions of the two ends. */
function edges(dependencies: Dependencies): (readonly [from: number, to: number])[] {
  const nodes = Array.from({ length: dependencies.starts.length - 1 }, (_, to) => to)
  return nodes.flatMap(to => [...nodeDependencies(dependencies, to)].map(from => [from, to] as const))
}

/** Positions by the longest path from an entry: nodes of one level can run at the same time. */
function levels(order: Plan["order"], dependencies: Dependencies): number[][] {
  const depth = new Int32Array(order.length)
  const found: number[][] = []
  for (const node of order) {
    for (const from of nodeDependencies(dependencies, node))
      depth[node] = Math.max(depth[node]!, depth[from]! + 1)
    const level = depth[node]!
    found[level] ??= []
    found[level].push(node)
  }
  return found
}

type Row = readonly [drawn: string, ...columns: string[]]

function treeGraph(plan: Plan, paint: Paint): string {
  const rows = buildTree(plan).map(({ node, branch }): Row => {
    const { id, handler, when, forEach } = plan.nodes[node]!
    const before = [...nodeDependencies(plan.dependencies, node)].map(at => plan.nodes[at]!.id)
    const notes = [
      // A single dependency is the node above it.
      before.length > 1 ? `after ${before.join(", ")}` : "",
      when === null ? "" : "when",
      forEach === null ? "" : "for each",
    ]
    return [`${branch}${printable(id)}`, printable(handler), printable(notes.filter(Boolean).join(" · "))]
  })
  return table(`${plan.name}  ${count(plan.nodes.length, "node")}`, rows, paint)
}

/** The kind of the messages in the queue, and the route that reads it. */
type Step = readonly [kind: string, to: number]

/** Starts at the queues of initial messages and follows what routes emit. Routes may form a cycle. */
function treePipeline({ name }: Plan, { routes, init }: PipelinePlan, paint: Paint): string {
  const drawn = new Set<number>()
  const rows: Row[] = [["queue", "route", "adapters"]]
  const draw = ([kind, to]: Step, branch: string): readonly Step[] => {
    const { name, inbound, adapters, runOn, outbound } = routes[to]!
    const queue = `${branch}${kind === "default" ? "" : `${printable(kind)}: `}${printable(inbound)}`
    if (drawn.has(to)) {
      rows.push([`${queue} ↑`])
      return []
    }
    drawn.add(to)
    const chain = adapters.map(({ type }) => printable(type)).join(" → ")
    rows.push([queue, printable(name), runOn === "workers" ? `${chain}  (on workers)` : chain])
    return [...outbound]
  }
  drawTree<Step>(
    firstRoutes(init).map(to => ["default", to]),
    draw,
  )
  // Routes that no message can reach are mistakes, and must be visible.
  for (const to of routes.keys()) if (!drawn.has(to)) drawTree<Step>([["default", to]], draw)
  return table(`${name}  ${count(routes.length, "route")}`, rows, paint)
}

/** Each node and each queue appears once, and no edge is left out: edges that the lines cannot show are listed after them. */
function table(title: string, rows: readonly Row[], paint: Paint): string {
  return `${[paint.bold(printable(title)), ...tableLines(rows)].join("\n")}\n`
}

interface Format {
  readonly graph: (plan: Plan, paint: Paint) => string
  readonly pipeline: (plan: Plan, pipeline: PipelinePlan, paint: Paint) => string
}

export const formats: Readonly<Record<string, Format>> = {
  mermaid: { graph: mermaidGraph, pipeline: mermaidPipeline },
  tree: { graph: treeGraph, pipeline: treePipeline },
  dot: { graph: dotGraph, pipeline: dotPipeline },
  json: { graph: jsonGraph, pipeline: jsonPipeline },
}
