/** Suggests what was probably meant: only the target knows which workflows exist. */
import { Suggester } from "../../definition/suggest.ts"
import { UmbraError } from "../../errors.ts"
import type { Target } from "./target.ts"

const MOST_NAMES = 1000

/** The error, with a suggestion if it is about a workflow that does not exist. */
export async function advised(error: unknown, { workflows }: Pick<Target, "workflows">): Promise<unknown> {
  if (!(error instanceof UmbraError) || error.code !== "E305") return error
  const wanted = /^There is no workflow "(.+)"\./s.exec(error.message)?.[1]
  if (wanted === undefined) return error
  const hint = await hintFor(wanted, workflows).catch(() => "")
  return hint === ""
    ? error
    : new UmbraError("E305", `There is no workflow "${wanted}". ${hint}`, { cause: error })
}

async function hintFor(wanted: string, workflows: Target["workflows"]): Promise<string> {
  const [, name, behind] = /^(.+)@([^@]+)$/s.exec(wanted) ?? []
  const names = new Map<string, number>()
  for await (const found of workflows.list()) {
    names.set(found.name, found.version)
    if (names.size === MOST_NAMES) break
  }
  const latest = name === undefined ? undefined : names.get(name)
  if (latest === undefined) return new Suggester().hint(name ?? wanted, names.keys()).trim()
  const { aliases = [] } = await workflows.get(name!)
  const known = ["latest", ...aliases.map(({ alias }) => alias)].join(", ")
  return /^\d+$/.test(behind!)
    ? `The newest version of ${name} is ${latest}.`
    : `The aliases of ${name} are: ${known}; its newest version is ${latest}.`
}
