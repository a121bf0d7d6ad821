/** `umbra jobs cancel|retry|delete` with a filter instead of a job, `umbra jobs fork`, and `umbra bulk list|show|abort`. */
import type {
  BulkCount,
  BulkOperation,
  BulkRefusal,
  BulkRequest,
  BulkSummary,
  BulkVerb,
} from "../../client/index.ts"
import { jobHasEnded } from "../../core/states.ts"
import { UmbraError } from "../../errors.ts"
import { confirmFlags, type ForkFlags, readFork } from "../commands/fork.ts"
import { exitCode } from "../exit.ts"
import { asJson, factLines, print } from "../output/print.ts"
import { count, paintFor, printable } from "../output/terminal.ts"
import { listed, type Target, type TargetOptions, withTarget } from "../target/open.ts"
import { buildFilter, type FilterOptions, isFiltered } from "./filter.ts"
import { paintStatus } from "./list.ts"

export interface BulkFlags extends TargetOptions, FilterOptions {
  readonly dryRun?: boolean
  readonly rate?: number
  readonly reason?: string
  readonly detach?: boolean
}

const POLL_MS = 250
/** Refused jobs that are printed. */
const SHOWN = 20

const past: { readonly [verb in BulkSummary["verb"]]: string } = {
  backfill: "started",
  cancel: "cancelled",
  retry: "retried",
  fork: "forked",
  delete: "deleted",
}

/** Throws if the command has both a job and options for many, or neither. True: it is for many. */
export function isForMany(jobId: string | undefined, options: BulkFlags): jobId is undefined {
  const given = isFiltered(buildFilter(options))
  const { dryRun, rate, detach } = options
  if (jobId === undefined && given) return true
  if (jobId !== undefined && (given || dryRun || rate !== undefined || detach))
    throw new UmbraError("E604", "Give the id of one job, or options such as --status for many, not both.")
  if (jobId !== undefined) return false
  throw new UmbraError(
    "E604",
    "Give the id of a job, or a filter for many: --status, --workflow, --since, … (`umbra jobs list` has the same).",
  )
}

/** `umbra jobs fork`: for all jobs that match a filter. `--to` is `--workflow` of `umbra fork`, which is a filter here. */
export async function fork(
  options: BulkFlags & Omit<ForkFlags, "workflow"> & { readonly to?: string },
): Promise<number> {
  if (!isFiltered(buildFilter(options)))
    throw new UmbraError(
      "E604",
      "Give a filter: --status, --workflow, --since, … (`umbra jobs list` has the same). `umbra fork JOB` forks one job.",
    )
  const { from, definition, output, nodeConfig, confirm, confirmUnknown, to: workflow } = options
  const flags = { from, workflow, definition, output, nodeConfig, confirm, confirmUnknown }
  return startBulk("fork", options, { fork: await readFork(flags, "--to") })
}

export async function startBulk(
  verb: BulkVerb,
  options: BulkFlags,
  more: Pick<BulkRequest, "fork"> = {},
): Promise<number> {
  const { dryRun, rate, reason } = options
  const request = { verb, filter: definedIn(buildFilter(options)), rate, reason, ...more }
  return withTarget(options, async target => {
    if (dryRun) return printCount(await target.bulk.count(request), options)
    return follow(await target.bulk.start(request), target, options)
  })
}

/** Waits for the end of an operation that was started, unless `--detach` is given. */
export async function follow(
  { bulk_id }: BulkOperation,
  target: Target,
  options: TargetOptions & Pick<BulkFlags, "detach">,
): Promise<number> {
  if (options.detach) return print(options, await target.bulk.get(bulk_id), `${bulk_id}\n`)
  if (!options.json && process.stderr.isTTY)
    process.stderr.write(
      `Ctrl-C leaves the operation running; abort it with \`umbra bulk abort ${bulk_id}${target.flags}\`.\n`,
    )
  return printEnd(await untilEnded(target, bulk_id, options), target, options)
}

export async function list(options: TargetOptions & { readonly limit: number }): Promise<number> {
  return withTarget(options, async ({ bulk }) => {
    const { limit } = options
    const found = await listed(bulk.list({ limit }), limit)
    const paint = paintFor(process.stdout)
    const line = (one: (typeof found)[number]) =>
      `${one.bulk_id}  ${paintStatus(one.status, paint)}  ${one.verb.padEnd(8)}  ${one.created_at}\n`
    return print(options, { operations: found }, () => found.map(line).join("") || "No bulk operations.\n")
  })
}

export async function show(id: string, options: TargetOptions): Promise<number> {
  return withTarget(options, async target => {
    const operation = await target.bulk.get(id)
    const refused = await firstRefused(target, id, operation)
    return print(options, { ...operation, refusals: refused }, () => shown(operation, refused))
  })
}

/** Waits until the commands in flight have ended. */
export async function abort(id: string, options: TargetOptions): Promise<number> {
  return withTarget(options, async target => {
    await target.bulk.abort(id)
    const operation = await untilEnded(target, id, options)
    const refused = await firstRefused(target, id, operation)
    return print(options, operation, () => shown(operation, refused))
  })
}

async function untilEnded(target: Target, id: string, { json }: TargetOptions): Promise<BulkOperation> {
  const isShown = !json && process.stderr.isTTY === true
  for (;;) {
    const operation = await target.bulk.get(id)
    if (isShown) process.stderr.write(`\r\u001b[K${progress(operation)}`)
    if (jobHasEnded(operation.status)) {
      if (isShown) process.stderr.write("\r\u001b[K")
      return operation
    }
    await new Promise(resolve => setTimeout(resolve, POLL_MS))
  }
}

function progress({ verb, processed, refused, matched }: BulkOperation): string {
  const whole = `${matched.complete ? "" : "at least "}${matched.count.toLocaleString("en")}`
  const left = refused === 0 ? "" : `, ${refused.toLocaleString("en")} refused`
  return `${verb}: ${processed.toLocaleString("en")} of ${whole} ${verb === "backfill" ? "ticks" : "jobs"}${left}`
}

function printCount(found: BulkCount, options: TargetOptions): number {
  const states = Object.entries(found.by_status).map(([status, n]) => `${n.toLocaleString("en")} ${status}`)
  const much = `${found.complete ? "" : "at least "}${count(found.count, "job")}`
  const what = states.length === 0 ? "" : `: ${states.join(", ")}`
  return print(options, found, [`Would ${found.verb} ${much}${what}.`, ...forkLines(found)])
}

/** What forks of the newest targets would need. */
function forkLines({ fork }: BulkCount): string[] {
  if (fork === undefined || fork.refused.length === 0) return []
  const { unsafe, unknown } = fork.unconfirmed
  const needed = confirmFlags(unsafe, unknown)
  return [
    `Of the newest ${count(fork.previewed, "job")} ${fork.refused.length} would be refused:`,
    ...fork.refused.map(refusalLine),
    ...(needed === "" ? [] : ["To accept that effects outside of Umbra are repeated, add:", `  ${needed}`]),
  ]
}

async function printEnd(operation: BulkOperation, target: Target, options: TargetOptions): Promise<number> {
  const { bulk_id: id, verb, status, done, refused } = operation
  const isDone = status === "COMPLETED"
  if (options.json) {
    process.stdout.write(asJson(operation))
    return isDone ? exitCode.ok : exitCode.failed
  }
  const lines = [`${isDone ? "" : `The operation ${id} is ${status}. `}${count(done, "job")} ${past[verb]}.`]
  if (refused > 0) {
    lines[0] += ` ${count(refused, verb === "backfill" ? "tick" : "job")} refused:`
    const first = await firstRefused(target, id, operation)
    lines.push(...first.map(refusalLine))
    if (refused > first.length) lines.push(`  … all of them: GET /bulk/${id}/refused`)
  }
  if ((verb === "retry" || verb === "fork" || verb === "backfill") && done > 0 && !target.isRun)
    lines.push(`No engine runs them yet; start one with \`umbra resume${target.flags}\`.`)
  process.stdout.write(`${lines.join("\n")}\n`)
  return isDone ? exitCode.ok : exitCode.failed
}

async function firstRefused(
  { bulk }: Target,
  id: string,
  { refused }: BulkOperation,
): Promise<readonly BulkRefusal[]> {
  return refused === 0 ? [] : listed(bulk.refused(id, { limit: SHOWN }), SHOWN)
}

function refusalLine({ code, message, tick }: BulkRefusal): string {
  return `  ${tick === undefined ? "" : `${tick}  `}${code}  ${printable(message)}`
}

function shown(operation: BulkOperation, refused: readonly BulkRefusal[]): string[] {
  const { bulk_id, verb, status, filter, reason, rate, created_at, finished_at, done, aborting } = operation
  const { backfill } = operation
  const facts = factLines([
    ["bulk", bulk_id],
    ["status", aborting ? `${status}, aborting` : status],
    ["verb", verb],
    ["filter", backfill === undefined ? JSON.stringify(filter) : ""],
    ["schedule", backfill?.schedule ?? ""],
    ["ticks", backfill === undefined ? "" : `from ${backfill.from}, before ${backfill.to}`],
    ["reason", reason ?? ""],
    ["fork", operation.fork === undefined ? "" : JSON.stringify(operation.fork)],
    ["rate", `${rate} jobs per second`],
    ["progress", `${progress(operation)}, ${done.toLocaleString("en")} ${past[verb]}`],
    ["created", created_at],
    ["finished", finished_at ?? ""],
  ])
  return [...facts, ...refused.map(refusalLine)]
}

function definedIn<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as T
}
