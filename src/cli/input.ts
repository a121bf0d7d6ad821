/** `--input`: JSON on the command line, `@file`, or `@-` for standard input. */

import { checkInput } from "../definition/index.ts"
import type { Plan } from "../definition/plan.ts"
import { UmbraError } from "../errors.ts"
import { readText } from "./source.ts"

/** undefined: none was given. */
export async function readInput(given: string | undefined): Promise<unknown> {
  if (given === undefined) return undefined
  const isFile = given.startsWith("@")
  const text = isFile ? (await readText(given.slice(1))).text : given
  const name = isFile ? given.slice(1) : "--input"
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    const why = (error as Error).message
    const hint = isFile
      ? ""
      : ` Quote it for the shell: --input '{"name": "Ada"}', or use --input @file.json.`
    throw new UmbraError("E603", `${name} is not JSON: ${why}.${hint}`, { cause: error })
  }
}

/** Before anything is opened, so that a wrong input leaves no trace. */
export function mustFit(plan: Plan, input: unknown): void {
  const { problems } = checkInput(plan.input, input)
  if (problems === undefined) return
  const lines = problems.map(({ path, message }) => `  ${path === "" ? "input" : path}: ${message}`)
  throw new UmbraError("E304", `the input does not fit workflow "${plan.name}":\n${lines.join("\n")}`)
}
