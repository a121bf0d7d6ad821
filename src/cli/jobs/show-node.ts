/** `umbra jobs show JOB NODE`: one node and every attempt at it. */
import type { AttemptView, AttemptWait } from "../../core/attempt-history.ts"
import { isoNodeDetails } from "../../engine/iso-times.ts"
import type { NodeDetails } from "../../engine/queries.ts"
import { exitCode } from "../exit.ts"
import { withPlace } from "../place/open.ts"
import { attemptText } from "../result.ts"
import { count, duration, type Paint, paintFor, printable, shorten } from "../terminal.ts"
import type { ShowOptions } from "./show.ts"

export async function showNode(jobId: string, id: string, options: ShowOptions): Promise<number> {
  const of = options.item === undefined ? {} : { item: options.item }
  const node = await withPlace(options, ({ jobs }) => jobs.node(jobId, id, of))
  const columns = process.stdout.columns || 100
  process.stdout.write(
    options.json
      ? `${JSON.stringify(isoNodeDetails(node), null, 2)}\n`
      : `${nodeText(node, columns, paintFor(process.stdout)).join("\n")}\n`,
  )
  return exitCode.ok
}

export function nodeText(node: NodeDetails, columns: number, paint: Paint): string[] {
  const facts = [
    ["node", node.item === undefined ? node.id : `${node.id}[${node.item}]`],
    ["handler", node.handler],
    ["status", [node.live?.nodes[0]?.status ?? node.status, attemptText(node)].filter(Boolean).join("  ")],
    ["usage", usageText(node.usage)],
    ["error", node.error === null ? "" : `${node.error.code} ${node.error.message}`],
    ["output", node.status === "COMPLETED" ? shorten(JSON.stringify(node.output), 2000) : ""],
  ] as const
  const head = facts
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${paint.dim(name.padEnd(9))} ${printable(value)}`)
  const older = node.attempts_total - node.attempts.length
  return [
    ...head,
    "",
    node.attempts_total === 0 ? "no attempt yet" : count(node.attempts_total, "attempt"),
    ...(older > 0 ? [paint.dim(`  … ${count(older, "older one")}`)] : []),
    ...node.attempts.flatMap(attempt => attemptLines(attempt, columns, paint)),
  ]
}

/** One line where there is room; on a narrow terminal the particulars follow below. */
function attemptLines(attempt: AttemptView, columns: number, paint: Paint): string[] {
  const { started_at, queued_at, duration_ms, worker, outcome } = attempt
  const time = new Date(started_at ?? queued_at).toISOString()
  const said = outcome ?? (started_at === null ? "queued" : "running")
  const colour = said === "completed" ? paint.green : said === "failed" ? paint.red : paint.yellow
  const took = duration_ms === null ? "" : duration(duration_ms)
  const head = `  ${String(attempt.attempt).padStart(3)}  ${said.padEnd(11)}  ${took.padStart(9)}`
  const shown = head.replace(said, colour(said))
  const rest = [
    time,
    attempt.queued_ms === null ? "" : `queued ${duration(attempt.queued_ms)}`,
    ...attempt.waits.map(waitText),
    worker === null ? "" : `on ${printable(worker)}`,
    attempt.usage === null ? "" : usageText(attempt.usage),
    attempt.error === null ? "" : printable(`${attempt.error.code} ${attempt.error.message}`),
  ].filter(Boolean)
  const line = rest.join("  ")
  if (head.length + 2 + line.length <= columns) return [`${shown}  ${paint.dim(line)}`.trimEnd()]
  return [shown.trimEnd(), ...rest.map(part => `       ${paint.dim(shorten(part, columns - 7))}`)]
}

function waitText({ kind, from, until, provider, name, job_id, external_id }: AttemptWait): string {
  const what = {
    retry: "its retry time",
    slot: `a slot of provider ${provider}`,
    items: "its items",
    timer: "its time",
    signal: `signal ${name}`,
    child: `job ${job_id}`,
    external: `${external_id} of provider ${provider}`,
  }[kind]
  return printable(`waited ${until === null ? "" : `${duration(until - from)} `}for ${what}`)
}

function usageText(usage: NodeDetails["usage"]): string {
  return Object.entries(usage ?? {})
    .map(([key, amount]) => `${key} ${amount.toLocaleString("en")}`)
    .join(", ")
}
