/** `umbra jobs show JOB`: the job and its nodes. */
import type {
  NodeConfig,
  RemoteAttempt,
  RemoteGraph,
  RemoteGraphAt,
  RemoteNode,
  RemoteNodeDetails,
  RemoteWaitingOn,
} from "../../client/index.ts"
import type { DeadLettersView } from "../../core/pipeline/view.ts"
import type { NodeStatus } from "../../core/states.ts"
import { withLive } from "../../core/view/live-view.ts"
import type { ItemWaits } from "../../core/view/view.ts"
import { routesHandler } from "../../definition/pipeline/compile.ts"
import type { JobSnapshot } from "../../engine/owner/snapshot.ts"
import { type ErrorCode, UmbraError } from "../../errors.ts"
import { exitCode } from "../exit.ts"
import { buildTree, toCoreGraph } from "../live/tree.ts"
import { mermaid, mermaidArrow, mermaidLabel } from "../output/pictures.ts"
import { asJson, factLines, print } from "../output/print.ts"
import {
  attemptText,
  errorText,
  firstError,
  nodeErrorText,
  nodeSummary,
  usageText,
} from "../output/result.ts"
import { routesTable, type ShownRoute } from "../output/routes-table.ts"
import { count, duration, type Paint, paintFor, printable, shorten, width } from "../output/terminal.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"

export interface ShowOptions extends TargetOptions {
  /** For a node with `for_each`. */
  readonly item?: number
  /** Print the node's config as it was rendered. */
  readonly rendered?: boolean
  readonly attempt?: number
}

export async function show(jobId: string, node: string | undefined, options: ShowOptions): Promise<number> {
  if (options.rendered || options.attempt !== undefined) return showConfig(jobId, node, options)
  if (node !== undefined) return showNode(jobId, node, options)
  if (options.item !== undefined)
    throw new UmbraError("E604", "--item needs a node: umbra jobs show JOB NODE --item 0")
  const [job, graph] = await withTarget(options, async ({ jobs }) => [
    await jobs.job(jobId),
    withLive(await jobs.graph(jobId)),
  ])
  const { workflow_status, progress_pct, routes, dead_letters, unseen_operations } = graph
  const nodes = graph.nodes.map(nodeSummary)
  const shown = { ...job, workflow_status, progress_pct, nodes, routes, dead_letters, unseen_operations }
  return print(options, shown, () => text(job, graph))
}

function text(job: JobSnapshot, graph: RemoteGraph): string[] {
  const labels = Object.entries(job.labels).map(([name, value]) => `${name}=${value}`)
  const facts = [
    ["job", job.job_id],
    [
      "workflow",
      `${job.workflow} ${job.workflow_version === null ? "changed" : `version ${job.workflow_version}`}`,
    ],
    [
      "status",
      [job.status, graph.workflow_status ?? "", `${graph.progress_pct} %`].filter(Boolean).join("  "),
    ],
    ["owner", job.owner],
    ["parent", job.parent_id ?? ""],
    ["fork of", job.forked_from ?? ""],
    ["schedule", job.schedule ? `${job.schedule.name}, tick ${job.schedule.tick}` : ""],
    ["labels", labels.join(" ")],
    ["note", job.note == null ? "" : `${job.note.text} (${aboutText(job.note)})`],
    ["paused", job.paused == null ? "" : pausedText(job.paused)],
    ["created", job.created_at],
    ["start", job.start_at ?? ""],
    ["finished", job.finished_at ?? ""],
    ["error", errorText(job)],
    ["reason", job.reason ?? ""],
    ["usage", usageText(job.usage ?? {})],
    ["dead", graph.dead_letters?.count ? deadText(graph.dead_letters) : ""],
    ["output", job.status === "COMPLETED" ? shorten(JSON.stringify(job.output), 2000) : ""],
  ] as const
  const paint = paintFor(process.stdout)
  return [...factLines(facts, paint), "", ...partLines(graph, paint), ...unseenLines(graph, paint)]
}

function aboutText({ at, by }: { readonly at: string; readonly by: string | null }): string {
  return by === null ? at : `${by}, ${at}`
}

function pausedText(paused: NonNullable<JobSnapshot["paused"]>): string {
  const { reason } = paused
  return `since ${aboutText(paused)}${reason === null ? "" : `: ${reason}`}`
}

function unseenLines({ unseen_operations = [] }: RemoteGraph, paint: Paint): string[] {
  return unseen_operations.map(({ node, provider, held_until }) => {
    const text = `node ${node}: an operation may be running unnoticed at provider ${provider}; it holds a slot until ${held_until}`
    return `${paint.yellow("⚠")} ${printable(text)}`
  })
}

function deadText(left: DeadLettersView): string {
  return `⚠ ${count(left.count, "message")} failed permanently, the first: ${firstError(left)}`
}

/** The routes of a pipeline replace its one node, unless it does not run. */
export function partLines(
  { nodes, routes }: Pick<RemoteGraph, "nodes"> & { readonly routes?: readonly ShownRoute[] | null },
  paint: Paint,
): string[] {
  if (routes === undefined) return nodeLines(nodes)
  if (routes === null) return [...nodeLines(nodes), paint.dim("The routes at this moment are not recorded.")]
  const isPlain = nodes.every(({ waiting_on, error }) => waiting_on === null && error === null)
  return [...routesTable(routes, paint), ...(isPlain ? [] : nodeLines(nodes))]
}

export function nodeLines(nodes: readonly RemoteNode[]): string[] {
  const columns = Math.min(40, Math.max(...nodes.map(node => width(node.id))))
  return nodes.map(node => {
    const took = node.duration_ms
    const name = shorten(printable(node.id), columns)
    const details = [
      attemptText(node),
      node.waited_ms === null ? "" : `waited ${duration(node.waited_ms)}`,
      itemsText(node),
      waitText(node),
      nodeErrorText(node),
      printable(node.reason ?? ""),
    ]
    return [
      `  ${name}${" ".repeat(columns - width(name))}`,
      node.status.padEnd(9),
      (took === null ? "" : duration(took)).padStart(9),
      details.filter(Boolean).join("  "),
    ]
      .join("  ")
      .trimEnd()
  })
}

type Wait<Kind extends RemoteWaitingOn["kind"]> = Extract<RemoteWaitingOn, { kind: Kind }>

function externalText(wait: Wait<"external">): string {
  const { provider, external_id, next_poll_at, poll_error } = wait
  const next = next_poll_at === null ? "" : `, next poll at ${next_poll_at}`
  const error = poll_error === null ? "" : `, the last poll failed: ${poll_error.message}`
  return `waits for ${external_id} of provider ${provider}${next}${error}`
}

function itemsText({ items }: RemoteNode): string {
  if (items === undefined) return ""
  const { total, ...states } = items
  const counts = Object.entries(states).map(([state, count]) => `${count} ${state}`)
  return [`${total} items`, ...(counts.length > 0 ? [`(${counts.join(", ")})`] : [])].join(" ")
}

function waitText({ waiting_on }: RemoteNode): string {
  switch (waiting_on?.kind) {
    case "retry":
      return `next attempt at ${waiting_on.at}`
    case "timer":
      return `until ${waiting_on.until}`
    case "signal":
      return `waits for signal ${waiting_on.name}`
    case "external":
      return externalText(waiting_on)
    case "slot": {
      const position = waiting_on.position === null ? "" : `, position ${waiting_on.position}`
      return `waits for a slot of provider ${waiting_on.provider}${position}`
    }
    case "items":
      return itemWaitsText(waiting_on)
    case "rate":
      return `waits for its place in the rate of provider ${waiting_on.provider}`
    case "start_time":
      return `starts at ${waiting_on.until}`
    case "paused":
      return "waits because the job is paused"
    case "executions":
      return `waits because ${waiting_on.limit} executions are running (max_executions)`
    case "child":
      return `waits for job ${waiting_on.job_id} (${waiting_on.workflow}@${waiting_on.workflow_version})`
    case "worker":
      return waiting_on.handler === routesHandler && waiting_on.reason !== "owner_away"
        ? engineText(waiting_on)
        : workerText(waiting_on)
    default:
      return ""
  }
}

const itemWaitNames: { readonly [kind in keyof ItemWaits]-?: string } = {
  retry: "a retry",
  executions: "the limit of concurrent executions",
  slot: "a slot",
  paused: "the end of the pause",
  timer: "a timer",
  signal: "a signal",
  child: "a child job",
  external: "a provider",
}

/** A server before 0.2 does not send what the items wait for. */
function itemWaitsText({ waits = {} }: { readonly waits?: ItemWaits }): string {
  const parts = Object.entries(waits).map(
    ([kind, items]) => `${items} for ${itemWaitNames[kind as keyof ItemWaits] ?? kind}`,
  )
  return parts.length === 0 ? "" : `waiting: ${parts.join(", ")}`
}

function workerText(wait: Wait<"worker">): string {
  const { handler, provider, reason, queued, position, last_worker, last_seen_at, cause } = wait
  const which = `handler ${handler}${provider === undefined ? "" : ` and provider ${provider}`}`
  const seen = last_seen_at == null ? "" : `, seen at ${last_seen_at}`
  switch (reason) {
    case "busy": {
      const order = position === undefined ? "" : `, position ${position} of ${queued}`
      return `waits for a worker with ${which}: all are busy${order}`
    }
    case "none": {
      const last = last_worker == null ? "" : `; the last was ${last_worker}${seen}`
      return `waits for a worker with ${which}: ${cause ?? "none is connected"}${last}`
    }
    case "job_queue": {
      if (position === undefined) return "waits in the queue of its workflow"
      const place = wait.position_is_minimum === true ? `${position} or later` : position
      return `waits in the queue of its workflow, position ${place}`
    }
    case "owner_away":
      return `waits for an engine: ${cause}${seen}`
    case "refused":
      return `waits for a worker with ${which}: rejected, ${cause}`
    case "isolated":
      return "waits to run alone: its process died during an earlier attempt"
    case "dispatching":
      return "is being dispatched"
    case "moving":
      return "waits for the engine that takes the job over"
    default:
      return `waits for a worker with ${which}`
  }
}

function engineText({ adapters = [], redis }: Wait<"worker">): string {
  const missing = [...adapters.map(type => `adapter ${type}`), ...(redis ? ["a Redis to reach workers"] : [])]
  const which = missing.length === 0 ? "runs it" : `has ${missing.join(", ")}`
  return `waits for an engine that ${which}`
}

async function showConfig(jobId: string, node: string | undefined, options: ShowOptions): Promise<number> {
  const { item, attempt, rendered } = options
  if (node === undefined || !rendered)
    throw new UmbraError(
      "E604",
      "--rendered needs a node, and --attempt needs --rendered: umbra jobs show JOB NODE --rendered",
    )
  const found = await withTarget(options, ({ jobs }) => jobs.nodeConfig(jobId, node, { item, attempt }))
  if (found.error !== null) throw new UmbraError(found.error.code as ErrorCode, found.error.message)
  const text = found.when === false ? "It was skipped: when is false.\n" : configText(found)
  return print(options, found, text)
}

function configText({ items, config }: NodeConfig): string {
  return items === null
    ? asJson(config)
    : `It has for_each: each of its ${items} items has a config. Add --item 0.\n`
}

async function showNode(jobId: string, id: string, options: ShowOptions): Promise<number> {
  const { item } = options
  const node = await withTarget(options, ({ jobs }) => jobs.node(jobId, id, { item }))
  const columns = process.stdout.columns || 100
  return print(options, node, () => nodeText(node, columns, paintFor(process.stdout)))
}

export function nodeText(node: RemoteNodeDetails, columns: number, paint: Paint): string[] {
  const status = node.live?.nodes[0]?.status ?? node.status
  const facts = [
    ["node", node.item === undefined ? node.id : `${node.id}[${node.item}]`],
    ["handler", node.handler],
    ["status", [status, attemptText(node)].filter(Boolean).join("  ")],
    ["usage", usageText(node.usage)],
    ["error", nodeErrorText(node)],
    ["reason", node.reason ?? ""],
    ["output", node.status === "COMPLETED" ? shorten(JSON.stringify(node.output), 2000) : ""],
  ] as const
  const older = node.attempts_total - node.attempts.length
  return [
    ...factLines(facts, paint),
    "",
    node.attempts_total === 0
      ? `no attempt${node.finished_at === null ? " yet" : ""}`
      : count(node.attempts_total, "attempt"),
    ...(older > 0 ? [paint.dim(`  … ${count(older, "older one")}`)] : []),
    ...node.attempts.flatMap(attempt => attemptLines(attempt, { status, columns, paint })),
  ]
}

/** The activity of an unfinished attempt. A stored start without a running handler: its process died. */
function openText(status: NodeStatus, { started_at }: RemoteAttempt): string {
  if (status === "RUNNING") return "running"
  if (status === "WAITING") return "waiting"
  return started_at === null ? "queued" : "not running"
}

/** In as few lines as the terminal's width allows. `status`: of the node. */
function attemptLines(
  attempt: RemoteAttempt,
  { status, columns, paint }: { status: NodeStatus; columns: number; paint: Paint },
): string[] {
  const { started_at, queued_at, duration_ms, worker, outcome } = attempt
  const said = outcome ?? openText(status, attempt)
  const colour = said === "completed" ? paint.green : said === "failed" ? paint.red : paint.yellow
  const took = duration_ms === null ? "" : duration(duration_ms)
  const number = `  ${String(attempt.attempt).padStart(3)}  `
  const head = `${said.padEnd(11)}  ${took.padStart(9)}`
  const rest = packed(
    [
      started_at ?? queued_at,
      outcome === "cancelled" && started_at === null ? "not started" : "",
      ...attempt.waits.map(attemptWaitText),
      attempt.queued_ms === null ? "" : `queued ${duration(attempt.queued_ms)}`,
      worker === null ? "" : `on ${printable(worker)}`,
      usageText(attempt.usage ?? undefined),
      printable(attempt.reason ?? ""),
      attempt.error === null ? "" : printable(`${attempt.error.code} ${attempt.error.message}`),
    ].filter(Boolean),
    { columns: columns - number.length, used: head.length },
  )
  const indent = " ".repeat(number.length)
  const [first = "", ...more] = rest.map(line => paint.dim(line))
  return [
    `${number}${colour(said)}${head.slice(said.length)}  ${first}`.trimEnd(),
    ...more.map(line => indent + line),
  ]
}

/** Breaks parts into lines of `columns`; the first line is partly used. */
function packed(parts: readonly string[], { columns, used }: { columns: number; used: number }): string[] {
  const lines = [""]
  let room = columns - used - 2
  for (const part of parts) {
    const line = lines.at(-1)!
    const wanted = line === "" ? part : `${line}  ${part}`
    if (wanted.length <= room) {
      lines[lines.length - 1] = wanted
      continue
    }
    lines.push(shorten(part, columns))
    room = columns
  }
  return lines
}

function attemptWaitText({
  kind,
  from,
  until,
  provider,
  name,
  by,
  job_id,
  external_id,
}: RemoteAttempt["waits"][number]): string {
  const what = {
    retry: "its retry time",
    executions: "the limit of concurrent executions",
    paused: "the end of the pause",
    slot: `a slot of provider ${provider}`,
    items: "its items",
    timer: "its timer",
    signal: `signal ${name}`,
    child: `job ${job_id}`,
    external: `${external_id} of provider ${provider}`,
  }[kind]
  if (until === null) return printable(`waits for ${what}`)
  const sent = by === undefined ? "" : `, sent by ${by} at ${until}`
  return printable(`waited ${duration(Date.parse(until) - Date.parse(from))} for ${what}${sent}`)
}

/** `umbra jobs graph JOB`: the shadow graph (J19) as JSON, as Mermaid with states as colours, or as a tree. */
export type GraphFormat = "tree" | "mermaid" | "json"

export interface JobGraphOptions extends TargetOptions {
  readonly format: GraphFormat
  /** A past moment. */
  readonly at?: string
}

/** The graph now, or at a past moment: then some of a pipeline's counts are not recorded. */
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
  const rows = buildTree(toCoreGraph(view))
  const shown = rows.map(({ node, branch }) => {
    const found = view.nodes[node]!
    return { ...found, id: `${branch}${found.id}` }
  })
  const { workflow_status, progress_pct, status, moment } = view
  const when = moment === undefined ? "" : `at ${moment.at}, fact #${moment.index}`
  const head = [status, workflow_status ?? "", `${progress_pct} %`, when].filter(Boolean).join("  ")
  return `${[head, ...partLines({ ...view, nodes: shown }, paintFor(process.stdout))].join("\n")}\n`
}
