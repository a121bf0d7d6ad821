import type { SubmitOptions } from "../../client/index.ts"
import { UmbraError } from "../../errors.ts"
import { readText } from "./source.ts"

/** Options of `run` and `submit` for a job. */
export interface SubmissionFlags {
  /** null: never. */
  readonly ttl?: number | null
  readonly label?: Readonly<Record<string, string>>
  readonly idempotencyKey?: string
  readonly priority?: number
}

export function submitOptions({ ttl, label, idempotencyKey, priority }: SubmissionFlags): SubmitOptions {
  return { ttlSeconds: ttl, labels: label, idempotencyKey, priority }
}

/** `--input`, `--data`: JSON on the command line, `@file`, or `@-` for standard input. undefined: the option was not given. */
export async function readJson(option: string, given: string | undefined): Promise<unknown> {
  if (given === undefined) return undefined
  const isFile = given.startsWith("@")
  const text = isFile ? (await readText(given.slice(1))).text : given
  const name = isFile ? given.slice(1) : option
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    const why = (error as Error).message
    const hint = isFile
      ? ""
      : ` Quote it for the shell: ${option} '{"name": "Ada"}', or use ${option} @file.json.`
    throw new UmbraError("E603", `${name} is not JSON: ${why}.${hint}`, { cause: error })
  }
}
