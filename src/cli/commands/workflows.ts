/** `umbra workflows list|show|delete`. */
import { exitCode } from "../exit.ts"
import { count, paintFor, printable, width } from "../output/terminal.ts"
import { withTarget } from "../target/open.ts"
import type { TargetOptions } from "../target/target.ts"

export interface WorkflowsOptions extends TargetOptions {
  readonly json?: boolean
}

export async function list(options: WorkflowsOptions): Promise<number> {
  const found = await withTarget(options, ({ workflows }) => all(workflows.list()))
  if (options.json) process.stdout.write(`${JSON.stringify({ workflows: found }, null, 2)}\n`)
  else if (found.length === 0) process.stdout.write("No workflows. Store one with `umbra push FILE`.\n")
  else {
    const names = found.map(({ name }) => printable(name))
    const columns = Math.max(...names.map(width))
    for (const [i, { version, created_at }] of found.entries())
      process.stdout.write(
        `${names[i]}${" ".repeat(columns - width(names[i]!))}  version ${version}  ${created_at}\n`,
      )
  }
  return exitCode.ok
}

export async function show(reference: string, options: WorkflowsOptions): Promise<number> {
  const { name, version } = parts(reference)
  const [workflow, versions] = await withTarget(options, async ({ workflows }) => [
    await workflows.get(name, { version }),
    await all(workflows.versions(name)),
  ])
  if (options.json) {
    process.stdout.write(`${JSON.stringify({ ...workflow, versions }, null, 2)}\n`)
    return exitCode.ok
  }
  const paint = paintFor(process.stdout)
  const { definition } = workflow
  const { stringify } = await import("yaml")
  const facts = [
    ["workflow", workflow.name],
    ["version", versionText(workflow.version, versions)],
    ["stored", `${workflow.created_at}${workflow.pushed_by == null ? "" : ` by ${workflow.pushed_by}`}`],
    ["hash", workflow.hash],
    ["about", definition.description ?? ""],
    "routes" in definition
      ? ["routes", String(definition.routes.length)]
      : ["nodes", String(definition.nodes.length)],
    ["aliases", (workflow.aliases ?? []).map(({ alias }) => alias).join(", ")],
  ] as const
  const lines = facts
    .filter(([, value]) => value !== "")
    .map(([label, value]) => `${paint.dim(label.padEnd(9))} ${printable(value)}`)
  process.stdout.write(`${lines.join("\n")}\n\n${stringify(definition)}`)
  return exitCode.ok
}

export async function remove(name: string, options: WorkflowsOptions): Promise<number> {
  await withTarget(options, ({ workflows }) => workflows.delete(name))
  process.stdout.write(
    options.json
      ? `${JSON.stringify({ name, deleted: true })}\n`
      : `Workflow ${printable(name)} is deleted; running jobs keep their version.\n`,
  )
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

/** `name` or `name@3`. */
function parts(reference: string): { readonly name: string; readonly version?: number } {
  const [, name, version] = /^(.+)@(\d{1,9})$/s.exec(reference) ?? []
  return name === undefined ? { name: reference } : { name, version: Number(version) }
}

async function all<T>(found: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const one of found) list.push(one)
  return list
}
