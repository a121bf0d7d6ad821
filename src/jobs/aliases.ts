import { aliasPattern, noSuchWorkflow } from "../engine/versions.ts"
import { UmbraError } from "../errors.ts"
import type { AliasKey, AliasTarget, Registry } from "../journal/port/registry.ts"
import { aliasView } from "./workflows.ts"

/** Points an alias at existing versions; used by the server and by commands on the store. */
export async function moveAlias(
  registry: Registry,
  move: AliasKey & { readonly targets: readonly AliasTarget[]; readonly by: string },
): Promise<ReturnType<typeof aliasView>> {
  if (!aliasPattern.test(move.alias))
    throw new UmbraError(
      "E311",
      "An alias begins with a letter and has at most 63 letters, digits, _ and -. Choose another name.",
    )
  if (move.alias === "latest")
    throw new UmbraError("E311", "`latest` always follows the newest version. Choose another name.")
  if (!move.targets.some(({ weight }) => weight > 0))
    throw new UmbraError(
      "E311",
      "An alias needs a version whose weight is above 0. Give one of them a weight.",
    )
  const latest = await registry.readLatest(move)
  if (latest === null) throw noSuchWorkflow(move.name)
  const { missing } = await registry.putAlias({ ...move, at: Date.now() })
  if (missing.length > 0)
    throw new UmbraError(
      "E311",
      `Workflow "${move.name}" has no version ${missing.join(", ")}. Its newest is ${latest}.`,
    )
  const found = await registry.readAlias(move)
  if (found === null) throw noSuchWorkflow(move.name)
  return aliasView(found)
}

/** Removes the alias; its history is kept. */
export async function deleteAlias(
  registry: Registry,
  { by, ...key }: AliasKey & { readonly by: string },
): Promise<void> {
  if (key.alias === "latest")
    throw new UmbraError("E311", "`latest` always follows the newest version and cannot be removed.")
  if (!(await registry.deleteAlias({ ...key, at: Date.now(), by })))
    throw noSuchWorkflow(`${key.name}@${key.alias}`)
}
