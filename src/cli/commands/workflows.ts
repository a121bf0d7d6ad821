/** `umbra workflows list|show|delete`. */
import { exitCode } from "../exit.ts"
import { factLines, padded, print } from "../output/print.ts"
import { count, printable } from "../output/terminal.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"

export async function list(options: TargetOptions): Promise<number> {
  const found = await withTarget(options, ({ workflows }) => all(workflows.list()))
  return print(options, { workflows: found }, () => {
    if (found.length === 0) return "No workflows. Store one with `umbra push FILE`.\n"
    const names = padded(found.map(({ name }) => printable(name)))
    const lines = found.map(
      ({ version, created_at }, i) => `${names[i]}  version ${version}  ${created_at}\n`,
    )
    return lines.join("")
  })
}

export async function show(reference: string, options: TargetOptions): Promise<number> {
  const { name, version } = parts(reference)
  const [workflow, versions] = await withTarget(options, async ({ workflows }) => [
    await workflows.get(name, { version }),
    await all(workflows.versions(name)),
  ])
  const { definition } = workflow
  const { stringify } = await import("yaml")
  const facts = [
    ["workflow", workflow.name],
    ["version", versionText(workflow.version, versions)],
    ["stored", `${workflow.created_at}${workflow.pushed_by == null ? "" : ` by ${workflow.pushed_by}`}`],
    ["hash", workflow.hash],
    ["about", definition.description ?? ""],
    ["routes", "routes" in definition ? String(definition.routes.length) : ""],
    ["nodes", "nodes" in definition ? String(definition.nodes.length) : ""],
    ["aliases", (workflow.aliases ?? []).map(({ alias }) => alias).join(", ")],
  ] as const
  const text = () => `${factLines(facts).join("\n")}\n\n${stringify(definition)}`
  return print(options, { ...workflow, versions }, text)
}

export async function remove(name: string, options: TargetOptions): Promise<number> {
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
