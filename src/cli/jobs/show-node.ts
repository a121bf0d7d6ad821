/** `umbra jobs show JOB NODE`: one node, or one of its items, and every attempt at it. */

import type { RemoteAttempt, RemoteNodeDetails } from "../../client/index.ts"
import type { NodeStatus } from "../../core/states.ts"
import { factLines, print } from "../output/print.ts"
import { attemptText, nodeErrorText, usageText } from "../output/result.ts"
import { count, duration, type Paint, paintFor, printable, shorten } from "../output/terminal.ts"
import { withTarget } from "../target/open.ts"
import type { ShowOptions } from "./show.ts"

export async function showNode(jobId: string, id: string, options: ShowOptions): Promise<number> {
  const { item } = options
  const node = await withTarget(options, ({ jobs }) => jobs.node(jobId, id, { item }))
  const columns = process.stdout.columns || 100
  return print(options, node, () => `${nodeText(node, columns, paintFor(process.stdout)).join("\n")}\n`)
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
      ...attempt.waits.map(waitText),
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

function waitText({
  kind,
  from,
  until,
  provider,
  name,
  job_id,
  external_id,
}: RemoteAttempt["waits"][number]): string {
  const what = {
    retry: "its retry time",
    executions: "the limit of concurrent executions",
    slot: `a slot of provider ${provider}`,
    items: "its items",
    timer: "its timer",
    signal: `signal ${name}`,
    child: `job ${job_id}`,
    external: `${external_id} of provider ${provider}`,
  }[kind]
  return printable(
    until === null
      ? `waits for ${what}`
      : `waited ${duration(Date.parse(until) - Date.parse(from))} for ${what}`,
  )
}
