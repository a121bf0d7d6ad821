/** `umbra alias set|list|delete|history`: the version that a name points at (J20). */
import type { Weights } from "../../client/index.ts"
import { UmbraError } from "../../errors.ts"
import { print, tableLines } from "../output/print.ts"
import { printable } from "../output/terminal.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"

export async function set(
  name: string,
  alias: string,
  version: string,
  options: TargetOptions,
): Promise<number> {
  const target = parseAliasTarget(version)
  const moved = await withTarget(options, ({ workflows }) => workflows.setAlias(name, alias, target))
  const where = weightsText(moved.weights)
  const text = `${printable(name)}@${alias} now points at ${where}. Running jobs keep their version.\n`
  return print(options, moved, text)
}

export async function list(name: string, options: TargetOptions): Promise<number> {
  const { version, aliases = [] } = await withTarget(options, ({ workflows }) => workflows.get(name))
  const rows = [{ alias: "latest", weights: { [version]: 1 }, moved_at: null, moved_by: null }, ...aliases]
  const lines = tableLines(
    rows.map(({ alias, weights, moved_at, moved_by }) => {
      const moved = moved_at === null ? "follows every push" : `since ${moved_at} by ${printable(moved_by)}`
      return [alias, `${weightsText(weights)}  ${moved}`]
    }),
  )
  return print(options, { name, latest: version, aliases }, lines)
}

export async function remove(name: string, alias: string, options: TargetOptions): Promise<number> {
  await withTarget(options, ({ workflows }) => workflows.deleteAlias(name, alias))
  const text = `${printable(name)}@${printable(alias)} is removed. Running jobs keep their version.\n`
  return print(options, { name, alias, deleted: true }, text)
}

export async function history(name: string, alias: string, options: TargetOptions): Promise<number> {
  const moves = await withTarget(options, ({ workflows }) => workflows.aliasHistory(name, alias))
  const lines = moves.map(({ at, by, from, to }) => {
    const step = `${from === null ? "nothing" : weightsText(from)} → ${to === null ? "nothing" : weightsText(to)}`
    return `${at}  ${step}  by ${printable(by)}\n`
  })
  return print(options, { moves }, lines.join(""))
}

/** `3`, or by weight `2=90,3=10`. */
function parseAliasTarget(text: string): number | Weights {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  const parts = text.split(",").map(part => /^ *([1-9]\d{0,8}) *= *(\d+(?:\.\d+)?) *$/.exec(part))
  const weights = new Map(parts.map(part => [part?.[1] ?? "", Number(part?.[2])]))
  const given = [...weights.values()]
  if (!given.every(weight => weight >= 0) || !given.some(weight => weight > 0))
    throw new UmbraError(
      "E604",
      `"${text}" is neither a version (3) nor a list of versions with weights (2=90,3=10) of which at least one is above 0.`,
    )
  if (weights.size < parts.length)
    throw new UmbraError("E604", `"${text}" names a version twice. Give each version one weight (2=90,3=10).`)
  return Object.fromEntries(weights)
}

/** `version 3`, `2 (90 %), 3 (10 %)` */
function weightsText(weights: Weights): string {
  const entries = Object.entries(weights)
  if (entries.length === 1) return `version ${entries[0]![0]}`
  const sum = entries.reduce((total, [, weight]) => total + weight, 0)
  return `versions ${entries.map(([version, weight]) => `${version} (${+((100 * weight) / sum).toFixed(1)} %)`).join(", ")}`
}
