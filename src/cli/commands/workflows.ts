/** `umbra workflows list|show|diff|delete|pause|resume`. */
import { stringify } from "yaml"
import type { StoredWorkflow, WorkflowDiff } from "../../client/index.ts"
import { UmbraError } from "../../errors.ts"
import { exitCode } from "../exit.ts"
import { workflowVersion } from "../input/options.ts"
import { factLines, print, tableLines } from "../output/print.ts"
import { count, type Paint, paintFor, printable } from "../output/terminal.ts"
import { listed, type TargetOptions, withTarget } from "../target/open.ts"

export async function list(options: TargetOptions): Promise<number> {
  const found = await withTarget(options, ({ workflows }) => listed(workflows.list()))
  return print(options, { workflows: found }, () => {
    if (found.length === 0) return "No workflows. Store one with `umbra push FILE`.\n"
    const rows = found.map(each => [printable(each.name), `version ${each.version}  ${each.created_at}`])
    return tableLines(rows)
  })
}

export async function show(reference: string, options: TargetOptions): Promise<number> {
  const { name, version } = workflowVersion(reference)
  const [workflow, versions] = await withTarget(options, async ({ workflows }) => [
    await workflows.get(name, { version }),
    await listed(workflows.versions(name)),
  ])
  const { definition } = workflow
  const facts = [
    ["workflow", workflow.name],
    ["version", versionText(workflow.version, versions)],
    ["stored", `${workflow.created_at}${workflow.pushed_by == null ? "" : ` by ${workflow.pushed_by}`}`],
    ["hash", workflow.hash],
    ["about", definition.description ?? ""],
    ["routes", "routes" in definition ? String(definition.routes.length) : ""],
    ["nodes", "nodes" in definition ? String(definition.nodes.length) : ""],
    ["paused", pausedText(workflow)],
    ["aliases", (workflow.aliases ?? []).map(({ alias }) => alias).join(", ")],
  ] as const
  const text = () => `${factLines(facts).join("\n")}\n\n${stringify(definition)}`
  return print(options, { ...workflow, versions }, text)
}

export async function diff(name: string, from: string, to: string, options: TargetOptions): Promise<number> {
  const [before, after] = [from, to].map(text => {
    if (!/^[1-9]\d{0,8}$/.test(text))
      throw new UmbraError("E604", `"${text}" is not a version. Use a number, for example: ${name} 1 2.`)
    return Number(text)
  })
  const between = { from: before!, to: after! }
  const found = await withTarget(options, ({ workflows }) => workflows.diff(name, between))
  return print(options, found, () => diffText(found, paintFor(process.stdout)))
}

function diffText(diff: WorkflowDiff, paint: Paint): string {
  const { nodes_added, nodes_removed, nodes_changed, routes_added, routes_removed, routes_changed } = diff
  const one = (kind: string, name: string) => `${kind} ${printable(name)}`
  const keys = (changed: readonly string[]) => paint.dim(changed.map(printable).join(", "))
  const lines = [
    ...nodes_removed.map(id => paint.red(`- ${one("node", id)}`)),
    ...routes_removed.map(name => paint.red(`- ${one("route", name)}`)),
    ...nodes_added.map(id => paint.green(`+ ${one("node", id)}`)),
    ...routes_added.map(name => paint.green(`+ ${one("route", name)}`)),
    ...nodes_changed.map(({ id, keys: changed }) => `~ ${one("node", id)}  ${keys(changed)}`),
    ...routes_changed.map(({ name, keys: changed }) => `~ ${one("route", name)}  ${keys(changed)}`),
    ...diff.keys_changed.map(key => `~ ${printable(key)}`),
  ]
  return lines.length === 0 ? "The versions have the same content.\n" : `${lines.join("\n")}\n`
}

export async function pause(name: string, options: PauseOptions): Promise<number> {
  const workflow = await withTarget(options, ({ workflows }) => workflows.pause(name, options))
  const text = `Workflow ${printable(name)} is paused: new jobs are stored and do not begin.\n`
  return print(options, { name, paused: workflow.paused ?? null }, text)
}

export interface PauseOptions extends TargetOptions {
  readonly reason?: string
}

export async function resume(name: string, options: TargetOptions): Promise<number> {
  await withTarget(options, ({ workflows }) => workflows.resume(name))
  const text = `Workflow ${printable(name)} is resumed; jobs that waited begin one after another.\n`
  return print(options, { name, paused: null }, text)
}

function pausedText({ paused }: { readonly paused?: StoredWorkflow["paused"] }): string {
  if (paused == null) return ""
  const by = paused.by === null ? "" : ` by ${paused.by}`
  return `since ${paused.at}${by}${paused.reason === null ? "" : `: ${paused.reason}`}`
}

export async function remove(name: string, options: TargetOptions): Promise<number> {
  await withTarget(options, ({ workflows }) => workflows.delete(name))
  const text = `Workflow ${printable(name)} is deleted; running jobs keep their version.\n`
  process.stdout.write(options.json ? `${JSON.stringify({ name, deleted: true })}\n` : text)
  return exitCode.ok
}

/** `3, the newest of 3`; if versions were deleted, the newest number is higher than the number of versions. */
function versionText(version: number, versions: readonly { readonly version: number }[]): string {
  const newest = Math.max(...versions.map(row => row.version))
  const others = count(versions.length, "version")
  return version === newest
    ? `${version}, the newest of ${others}`
    : `${version} of ${others}, the newest is ${newest}`
}
