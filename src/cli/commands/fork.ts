/** `umbra fork JOB`: a new job that takes over from another one what need not run again. */
import type { BulkFork, ForkedNode, ForkPreview, ForkRequest } from "../../client/index.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import { UmbraError } from "../../errors.ts"
import { readJson, readSource } from "../input/source.ts"
import { print, printSubmitted } from "../output/print.ts"
import type { DeadLetterFlags } from "../output/result.ts"
import {
  count,
  duration,
  type Paint,
  paintFor,
  printable,
  shorten,
  width,
  wrapped,
} from "../output/terminal.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"
import { seeToItsEnd, withRunner } from "../target/runner.ts"

/** What forks of one job and of many have in common. */
export interface ForkFlags {
  readonly from?: readonly string[] | undefined
  readonly workflow?: string | undefined
  readonly definition?: string | undefined
  readonly output?: readonly string[] | undefined
  readonly nodeConfig?: readonly string[] | undefined
  readonly confirm?: readonly string[] | undefined
  readonly confirmUnknown?: boolean | undefined
}

export interface ForkCommandOptions extends ForkFlags, TargetOptions, DeadLetterFlags {
  readonly input?: string
  readonly items?: readonly string[]
  readonly reuse?: readonly string[]
  readonly idempotencyKey?: string
  readonly dryRun?: boolean
  readonly wait?: boolean
}

export async function fork(jobId: string, options: ForkCommandOptions): Promise<number> {
  const request = await readForkRequest(options)
  const { idempotencyKey } = options
  if (options.dryRun) {
    const preview = await withTarget(options, ({ jobs }) => jobs.previewFork(jobId, request))
    const { stdout } = process
    return print(options, preview, () => previewText(preview, paintFor(stdout), terminalWidth(stdout)))
  }
  if (options.wait)
    return withRunner(options, async runner => {
      const { job_id } = await runner.fork(jobId, request, { idempotencyKey })
      return seeToItsEnd(runner, job_id, options)
    })
  return withTarget(options, async target => {
    const job = await target.jobs.acceptFork(jobId, request, { idempotencyKey })
    const what = job.is_new ? `Forked from ${jobId}.` : "The fork was already submitted with this key."
    return printSubmitted(options, { job, what }, target)
  })
}

/** A pipe has no columns. */
function terminalWidth({ isTTY, columns }: NodeJS.WriteStream): number {
  const said = Number(process.env.COLUMNS)
  return isTTY ? columns : said > 0 ? said : 100
}

async function readForkRequest(options: ForkCommandOptions): Promise<ForkRequest> {
  const { reuse } = options
  const items = (options.items ?? []).map(text => parseItems(text))
  return {
    ...(await readFork(options, "--workflow")),
    reuse,
    input: options.input === undefined ? undefined : ((await readJson("--input", options.input)) as Json),
    items: items.length === 0 ? undefined : Object.fromEntries(items),
  }
}

/** `option`: the name of the option for a stored version. */
export async function readFork(options: ForkFlags, option: string): Promise<BulkFork> {
  const { from, workflow, definition, confirm, confirmUnknown } = options
  if (workflow !== undefined && definition !== undefined)
    throw new UmbraError(
      "E604",
      `Give ${option}, a stored version, or --definition, a changed one, not both.`,
    )
  const overrides: Record<string, NonNullable<ForkRequest["overrides"]>[string]> = {}
  for (const [node, output] of await readNodeValues("--output", options.output)) overrides[node] = { output }
  for (const [node, config] of await readNodeValues("--node-config", options.nodeConfig)) {
    if (node in overrides)
      throw new UmbraError("E604", `Give --output or --node-config for node "${node}", not both.`)
    overrides[node] = { config: config as JsonObject }
  }
  const isConfirmed = confirm !== undefined || confirmUnknown !== undefined
  return {
    from,
    workflow: definition === undefined ? workflow : await definitionIn(definition),
    overrides: Object.keys(overrides).length === 0 ? undefined : overrides,
    ...(isConfirmed ? { confirm: { unsafe: confirm ?? [], unknown: confirmUnknown ?? false } } : {}),
  }
}

/** NODE=JSON; the value may be @file. */
async function readNodeValues(option: string, given: readonly string[] = []): Promise<[string, Json][]> {
  const found: [string, Json][] = []
  for (const text of given) {
    const mark = text.indexOf("=")
    if (mark < 1) throw new UmbraError("E604", `${option} must be NODE=JSON: ${option} price=42`)
    found.push([text.slice(0, mark), (await readJson(option, text.slice(mark + 1))) as Json])
  }
  return found
}

function parseItems(text: string): [string, number[]] {
  const [, node, list] = /^([^=]+)=(\d+(?:,\d+)*)$/.exec(text) ?? []
  if (node === undefined || list === undefined)
    throw new UmbraError("E604", "--items must be NODE=INDEXES, from 0: --items resize=0,3")
  return [node, list.split(",").map(Number)]
}

/** Sent as JSON, whatever the file contains. */
async function definitionIn(file: string): Promise<ForkRequest["workflow"]> {
  const { parseDocument } = await import("../../definition/document/document.ts")
  const source = await readSource(file)
  const { value, problems } = parseDocument(
    source.text,
    source.format === undefined ? {} : { format: source.format },
  )
  if (value === undefined || problems.length > 0) {
    const { invalidWorkflow } = await import("../../definition/problem.ts")
    throw invalidWorkflow(problems)
  }
  return value as ForkRequest["workflow"]
}

/** The preview for people: a line per node, cut to the width of the terminal; the reason on a line of its own if there is no room. */
export function previewText(preview: ForkPreview, paint: Paint, columns: number): string {
  const { reused, will_run, pinned, new: added, removed, expected } = preview
  const version =
    preview.workflow_version === null ? "a changed definition" : `version ${preview.workflow_version}`
  const all = [...reused, ...will_run, ...pinned, ...added]
  const names = Math.max(0, ...all.map(({ node }) => width(printable(node))))
  const list = (title: string, nodes: readonly ForkedNode[], paintName: (text: string) => string) =>
    nodes.length === 0
      ? []
      : [
          paint.bold(`${title} (${nodes.length})`),
          ...nodes.flatMap(node => nodeLines(node, { names, columns, paint, paintName })),
          "",
        ]
  const lines = [
    ...wrapped(`Fork of ${preview.job_id}`, columns),
    ...wrapped(`${printable(preview.workflow)}, ${version}`, columns),
    "",
    ...list("Reused", reused, paint.dim),
    ...list("Will run", will_run, paint.cyan),
    ...list("Pinned", pinned, paint.yellow),
    ...list("New", added, paint.green),
    ...(removed.length === 0
      ? []
      : [
          paint.bold(`Removed (${removed.length})`),
          ...removed.map(id => `  ${shorten(printable(id), columns - 2)}`),
          "",
        ]),
    ...expectedLines(expected, columns, paint),
    ...confirmLines(preview, columns, paint),
  ]
  return `${lines.join("\n").trimEnd()}\n`
}

function nodeLines(
  node: ForkedNode,
  {
    names,
    columns,
    paint,
    paintName,
  }: { names: number; columns: number; paint: Paint; paintName: (text: string) => string },
): string[] {
  const { because, items, effects, duration_ms, usage } = node
  const name = printable(node.node)
  const parts = [
    because,
    items === undefined ? "" : `${count(items.reused, "item")} reused, ${items.run} run`,
    effects === undefined || effects === "safe" ? "" : effects,
    effects === undefined ? "" : timeText(duration_ms ?? null),
    usageText(usage ?? {}),
  ]
  const rest = parts.filter(Boolean).join("; ")
  const column = Math.min(names, 30) + 4
  if (width(name) <= column - 4 && columns - column >= 30) {
    const [first = "", ...more] = wrapped(rest, columns - column)
    return [
      `  ${paintName(name)}${" ".repeat(column - 2 - width(name))}${first}`,
      ...more.map(text => `${" ".repeat(column)}${text}`),
    ]
  }
  return [
    `  ${paintName(shorten(name, columns - 2))}`,
    ...wrapped(rest, columns - 4).map(text => `    ${paint.dim(text)}`),
  ]
}

function timeText(time: { readonly p50: number; readonly p90: number } | null): string {
  return time === null ? "no data" : `${duration(time.p50)} to ${duration(time.p90)}`
}

function usageText(usage: NonNullable<ForkedNode["usage"]>): string {
  const amount = (value: number) => String(Number(value.toPrecision(3)))
  const text = ([key, { mean, p50, p90 }]: [string, (typeof usage)[string]]) =>
    `${printable(key)} ${p50 === null || p90 === null ? `${amount(mean)} on average` : `${amount(p50)} to ${amount(p90)}`}`
  return Object.entries(usage).map(text).join(", ")
}

function expectedLines(expected: ForkPreview["expected"], columns: number, paint: Paint): string[] {
  const path =
    expected.critical_path.length === 0 ? "nothing runs" : expected.critical_path.map(printable).join(" → ")
  return [
    paint.bold("Expected"),
    ...labelled("time", timeText(expected.duration_ms), columns),
    ...labelled("usage", expected.usage === null ? "no data" : usageText(expected.usage), columns),
    ...labelled("path", path, columns),
    "",
  ]
}

function labelled(label: string, text: string, columns: number): string[] {
  return wrapped(text, columns - 10).map((line, i) => `  ${(i === 0 ? label : "").padEnd(8)}${line}`)
}

function confirmLines(
  { unconfirmed: { unsafe, unknown } }: ForkPreview,
  columns: number,
  paint: Paint,
): string[] {
  if (unsafe.length + unknown.length === 0) return []
  const needed = confirmFlags(unsafe, unknown)
  const why = `${[...unsafe, ...unknown].length === 1 ? "One node" : `${unsafe.length + unknown.length} nodes`} may repeat effects outside of Umbra. To accept that, add:`
  return [
    ...wrapped(why, columns).map(paint.yellow),
    ...wrapped(needed, columns - 2).map(text => `  ${text}`),
  ]
}

/** The options that confirm these nodes. */
export function confirmFlags(unsafe: readonly string[], unknown: readonly string[]): string {
  const named = unsafe.map(id => `--confirm ${printable(id)}`)
  return [...named, ...(unknown.length === 0 ? [] : ["--confirm-unknown"])].join(" ")
}
