/** `umbra jobs show JOB`: the job and its nodes. */

import type { RemoteGraph, RemoteNode, RemoteWaitingOn } from "../../client/index.ts"
import type { DeadLettersView } from "../../core/pipeline/view.ts"
import { withLive } from "../../core/view/live-view.ts"
import type { ItemWaits } from "../../core/view/view.ts"
import { routesHandler } from "../../definition/pipeline/compile.ts"
import type { JobSnapshot } from "../../engine/owner/snapshot.ts"
import { UmbraError } from "../../errors.ts"
import { factLines, print } from "../output/print.ts"
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
import { withTarget } from "../target/open.ts"
import type { TargetOptions } from "../target/target.ts"

export interface ShowOptions extends TargetOptions {
  /** For a node with `for_each`. */
  readonly item?: number
}

export async function show(jobId: string, options: ShowOptions): Promise<number> {
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

function text(job: JobSnapshot, graph: RemoteGraph): string {
  const labels = Object.entries(job.labels).map(([name, value]) => `${name}=${value}`)
  const facts = [
    ["job", job.job_id],
    ["workflow", `${job.workflow} version ${job.workflow_version}`],
    [
      "status",
      [job.status, graph.workflow_status ?? "", `${graph.progress_pct} %`].filter(Boolean).join("  "),
    ],
    ["owner", job.owner],
    ["parent", job.parent_id ?? ""],
    ["labels", labels.join(" ")],
    ["created", job.created_at],
    ["finished", job.finished_at ?? ""],
    ["error", errorText(job)],
    ["reason", job.reason ?? ""],
    ["usage", usageText(job.usage ?? {})],
    ["dead", graph.dead_letters?.count ? deadText(graph.dead_letters) : ""],
    ["output", job.status === "COMPLETED" ? shorten(JSON.stringify(job.output), 2000) : ""],
  ] as const
  const paint = paintFor(process.stdout)
  return `${[...factLines(facts, paint), "", ...partLines(graph, paint), ...unseenLines(graph, paint)].join("\n")}\n`
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
    case "owner_away":
      return `waits for an engine: ${cause}${seen}`
    case "refused":
      return `waits for a worker with ${which}: rejected, ${cause}`
    default:
      return `waits for a worker with ${which}`
  }
}

function engineText({ adapters = [], redis }: Wait<"worker">): string {
  const missing = [...adapters.map(type => `adapter ${type}`), ...(redis ? ["a Redis to reach workers"] : [])]
  const which = missing.length === 0 ? "runs it" : `has ${missing.join(", ")}`
  return `waits for an engine that ${which}`
}
