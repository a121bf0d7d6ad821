/** A pipeline's routes and queues as Mermaid, Graphviz or JSON. They are named by position, so no name can break the syntax. */
import type { PipelinePlan } from "../../definition/pipeline/plan.ts"
import type { Plan } from "../../definition/plan.ts"
import { dotText, mermaidText } from "./graph-picture.ts"

export interface PipelinePicture {
  readonly name: string
  readonly routes: readonly {
    readonly name: string
    readonly inbound: string
    readonly adapters: readonly string[]
    /** Positions of the routes that read what it emits, by kind. */
    readonly outbound: readonly (readonly [kind: string, to: number])[]
    readonly run_on: "engine" | "workers"
  }[]
  /** Positions of the routes that read initial messages, each once. */
  readonly init: readonly number[]
  readonly max_hops: number | null
}

export function pipelinePicture({ name }: Plan, { routes, init, maxHops }: PipelinePlan): PipelinePicture {
  return {
    name,
    routes: routes.map(({ name, inbound, adapters, outbound, runOn }) => ({
      name,
      inbound,
      adapters: adapters.map(({ type }) => type),
      outbound: [...outbound],
      run_on: runOn,
    })),
    init: [...new Set(init.map(({ route }) => route))],
    max_hops: maxHops,
  }
}

const shown = (kind: string): string => (kind === "default" ? "" : kind)

/** A queue is drawn next to the route that reads it, and has the same number. */
export function mermaidPipeline({ name, routes, init }: PipelinePicture): string {
  const lines = [
    "---",
    `title: ${JSON.stringify(name)}`,
    "---",
    "flowchart LR",
    "  begin((init))",
    ...routes.flatMap(({ name, inbound, adapters }, i) => [
      `  q${i}[("${mermaidText(inbound)}")]`,
      `  r${i}["${mermaidText(name)}<br/><small>${adapters.map(mermaidText).join(" → ")}</small>"]`,
      `  q${i} --> r${i}`,
    ]),
    ...init.map(to => `  begin --> q${to}`),
    ...routes.flatMap(({ outbound }, i) =>
      outbound.map(([kind, to]) => `  r${i} -->${shown(kind) && `|${mermaidText(kind)}|`} q${to}`),
    ),
  ]
  return `${lines.join("\n")}\n`
}

export function dotPipeline({ name, routes, init }: PipelinePicture): string {
  const lines = [
    `digraph "${dotText(name)}" {`,
    "  rankdir=LR",
    '  node [shape=box, style=rounded, fontname="sans-serif"]',
    '  begin [label="init", shape=circle]',
    ...routes.flatMap(({ name, inbound, adapters }, i) => [
      `  q${i} [label="${dotText(inbound)}", shape=cylinder, style=""]`,
      `  r${i} [label="${dotText(name)}\\n${adapters.map(dotText).join(" → ")}"]`,
      `  q${i} -> r${i}`,
    ]),
    ...init.map(to => `  begin -> q${to}`),
    ...routes.flatMap(({ outbound }, i) =>
      outbound.map(([kind, to]) => `  r${i} -> q${to}${shown(kind) && ` [label="${dotText(kind)}"]`}`),
    ),
    "}",
  ]
  return `${lines.join("\n")}\n`
}

export function jsonPipeline({ routes, init, ...rest }: PipelinePicture): string {
  const queue = (position: number): string => routes[position]!.inbound
  const content = {
    ...rest,
    init: init.map(queue),
    routes: routes.map(({ outbound, ...route }) => ({
      ...route,
      outbound: Object.fromEntries(outbound.map(([kind, to]) => [kind, queue(to)])),
    })),
  }
  return `${JSON.stringify(content, null, 2)}\n`
}
