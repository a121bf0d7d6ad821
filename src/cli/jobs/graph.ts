/** `umbra jobs graph JOB`: the shadow graph (J19) as JSON, as Mermaid with states as colours, or as a tree. */

import type { RemoteGraph, RemoteGraphAt } from "../../client/index.ts"
import type { NodeStatus } from "../../core/states.ts"
import { withLive } from "../../core/view/live-view.ts"
import { exitCode } from "../exit.ts"
import { graphOf, treeOf } from "../live/tree.ts"
import { mermaid, mermaidArrow, mermaidLabel } from "../output/pictures.ts"
import { asJson } from "../output/print.ts"
import type { ShownRoute } from "../output/routes-table.ts"
import { paintFor } from "../output/terminal.ts"
import { withTarget } from "../target/open.ts"
import type { TargetOptions } from "../target/target.ts"
import { partLines } from "./show.ts"

export type GraphFormat = "tree" | "mermaid" | "json"

export interface JobGraphOptions extends TargetOptions {
  readonly format: GraphFormat
  /** A past moment. */
  readonly at?: string
}

/** The graph now, or at a past moment: then some of a pipeline's figures are not recorded. */
type ShownGraph = Omit<RemoteGraph, "routes"> &
  Partial<Pick<RemoteGraphAt, "moment">> & { readonly routes?: readonly ShownRoute[] | null }

const formats: Readonly<Record<GraphFormat, (jobId: string, graph: ShownGraph) => string>> = {
  json: (jobId, graph) => asJson({ job_id: jobId, ...graph }),
  mermaid: (_, graph) => jobPicture(withLive(graph)),
  tree: (_, graph) => tree(withLive(graph)),
}

export async function graph(jobId: string, options: JobGraphOptions): Promise<number> {
  const { at } = options
  const found = await withTarget<ShownGraph>(options, ({ jobs }) =>
    at === undefined ? jobs.graph(jobId) : jobs.graphAt(jobId, at),
  )
  process.stdout.write(formats[options.json ? "json" : options.format](jobId, found))
  return exitCode.ok
}

const colours: Readonly<Record<NodeStatus, string>> = {
  PENDING: "fill:#eee,stroke:#999,color:#333",
  QUEUED: "fill:#e0ecff,stroke:#5b8def,color:#123",
  RUNNING: "fill:#cfe8ff,stroke:#1971c2,color:#123",
  WAITING: "fill:#fff3bf,stroke:#e67700,color:#321",
  COMPLETED: "fill:#d3f9d8,stroke:#2b8a3e,color:#132",
  SKIPPED: "fill:#f8f9fa,stroke:#adb5bd,color:#666",
  FAILED: "fill:#ffe3e3,stroke:#c92a2a,color:#311",
  CANCELLED: "fill:#fff0e6,stroke:#d9480f,color:#321",
}

function jobPicture({ nodes, edges, routes }: ShownGraph): string {
  if (routes) return routesPicture(routes)
  const positions = new Map(nodes.map(({ id }, index) => [id, index]))
  const used = new Set(nodes.map(({ status }) => status))
  const shapes = nodes.map(({ id, status, attempt }, i) => {
    const small = `${status}${attempt > 1 ? `, attempt ${attempt}` : ""}`
    return `  n${i}[${mermaidLabel(id, small)}]:::${status}`
  })
  return mermaid("TD", [
    ...shapes,
    ...edges.map(({ from, to }) => `  n${positions.get(from)} --> n${positions.get(to)}`),
    ...[...used].map(status => `  classDef ${status} ${colours[status]}`),
  ])
}

function routesPicture(routes: readonly ShownRoute[]): string {
  const readers = new Map(routes.map(({ inbound }, index) => [inbound, index]))
  const lines = routes.flatMap(({ name, inbound, outbound, queued, in_flight, done, failed }, i) => [
    `  q${i}[(${mermaidLabel(inbound, `${queued} queued`)})]`,
    `  r${i}[${mermaidLabel(name, [...(in_flight === null ? [] : [`${in_flight} in flight`]), `${done} done`, `${failed} failed`].join(", "))}]`,
    `  q${i} --> r${i}`,
    ...Object.entries(outbound).map(
      ([kind, queue]) => `  r${i} ${mermaidArrow(kind)} q${readers.get(queue)}`,
    ),
  ])
  return mermaid("LR", lines)
}

function tree(view: ShownGraph): string {
  const rows = treeOf(graphOf(view))
  const shown = rows.map(({ node, branch }) => {
    const found = view.nodes[node]!
    return { ...found, id: `${branch}${found.id}` }
  })
  const { workflow_status, progress_pct, status, moment } = view
  const when = moment === undefined ? "" : `at ${moment.at}, fact #${moment.index}`
  const head = [status, workflow_status ?? "", `${progress_pct} %`, when].filter(Boolean).join("  ")
  return `${[head, ...partLines({ ...view, nodes: shown }, paintFor(process.stdout))].join("\n")}\n`
}
