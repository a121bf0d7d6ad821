/** A plan's graph as Mermaid, Graphviz or JSON. Nodes are named by position, so no id can break the syntax. */
import type { Plan } from "../../definition/plan.ts"

export interface GraphPicture {
  readonly name: string
  readonly nodes: readonly { readonly id: string; readonly handler: string; readonly conditional: boolean }[]
  /** Positions of the two ends. */
  readonly edges: readonly (readonly [from: number, to: number])[]
  /** A topological order of positions. */
  readonly order: readonly number[]
  /** Positions by the longest path from an entry: nodes of one level can run at the same time. */
  readonly levels: readonly (readonly number[])[]
  readonly entries: readonly number[]
  readonly exits: readonly number[]
}

export function graphPicture(plan: Plan): GraphPicture {
  const { starts, items } = plan.dependencies
  const edges: (readonly [number, number])[] = []
  const depth = new Int32Array(plan.nodes.length)
  const levels: number[][] = []
  for (const to of plan.order) {
    for (let i = starts[to] as number; i < (starts[to + 1] as number); i++) {
      const from = items[i] as number
      depth[to] = Math.max(depth[to] as number, (depth[from] as number) + 1)
    }
    const level = depth[to] as number
    levels[level] ??= []
    levels[level].push(to)
  }
  for (let to = 0; to < plan.nodes.length; to++) {
    for (let i = starts[to] as number; i < (starts[to + 1] as number); i++)
      edges.push([items[i] as number, to])
  }
  return {
    name: plan.name,
    nodes: plan.nodes.map(({ id, handler, when }) => ({ id, handler, conditional: when !== null })),
    edges,
    order: [...plan.order],
    levels,
    entries: plan.nodes.flatMap((_, i) => (plan.inDegrees[i] === 0 ? [i] : [])),
    exits: [...plan.exits],
  }
}

/** Mermaid reads Markdown, HTML and its own `#…;` codes in labels: all characters except plain text are written as codes. */
export const mermaidText = (text: string): string =>
  text.replace(/[^\p{L}\p{N} _.:/-]/gu, character => `#${character.codePointAt(0)};`)

export function mermaidGraph({ name, nodes, edges }: GraphPicture): string {
  const lines = [
    "---",
    `title: ${JSON.stringify(name)}`,
    "---",
    "flowchart TD",
    ...nodes.map(({ id, handler, conditional }, i) => {
      const label = `"${mermaidText(id)}<br/><small>${mermaidText(handler)}</small>"`
      return `  n${i}${conditional ? `{{${label}}}` : `[${label}]`}`
    }),
    ...edges.map(([from, to]) => `  n${from} --> n${to}`),
  ]
  return `${lines.join("\n")}\n`
}

/** In a quoted string of Graphviz a backslash starts an escape, and a line break would be kept. */
export const dotText = (text: string): string => text.replace(/["\\]/g, "\\$&").replace(/\r\n|\r|\n/g, "\\n")

export function dotGraph({ name, nodes, edges }: GraphPicture): string {
  const lines = [
    `digraph "${dotText(name)}" {`,
    '  node [shape=box, style=rounded, fontname="sans-serif"]',
    ...nodes.map(({ id, handler, conditional }, i) => {
      const style = conditional ? ', style="rounded,dashed"' : ""
      return `  n${i} [label="${dotText(id)}\\n${dotText(handler)}"${style}]`
    }),
    ...edges.map(([from, to]) => `  n${from} -> n${to}`),
    "}",
  ]
  return `${lines.join("\n")}\n`
}

export function jsonGraph({ name, nodes, edges, order, levels, entries, exits }: GraphPicture): string {
  const id = (position: number): string => (nodes[position] as { id: string }).id
  const content = {
    name,
    nodes,
    edges: edges.map(([from, to]) => ({ from: id(from), to: id(to) })),
    entries: entries.map(id),
    exits: exits.map(id),
    order: order.map(id),
    levels: levels.map(level => level.map(id)),
  }
  return `${JSON.stringify(content, null, 2)}\n`
}
