/** Reads an input named on the command line: a file, or `-` for standard input. */
import { readFile, stat } from "node:fs/promises"
import { buffer } from "node:stream/consumers"
import type { StartOptions, SubmitOptions } from "../../client/index.ts"
import { UmbraError } from "../../errors.ts"

export interface Source {
  /** Its name in messages: `flow.yaml`, `<stdin>`. */
  readonly name: string
  readonly text: string
  /** From the file's extension; `undefined` if that is not decisive. */
  readonly format?: "json" | "yaml"
}

export async function readText(file: string): Promise<{ readonly name: string; readonly text: string }> {
  const fromStdin = file === "-"
  const name = fromStdin ? "<stdin>" : file
  const bytes = fromStdin ? await buffer(process.stdin) : await readBytes(file)
  return { name, text: decode(bytes, name) }
}

export async function readSource(file: string): Promise<Source> {
  const { name, text } = await readText(file)
  if (text.trim() === "")
    throw new UmbraError("E601", `${name} is empty. Write a workflow into it: a name and nodes.`)
  const format = detectFormat(file)
  return format === undefined ? { name, text } : { name, text, format }
}

function detectFormat(file: string): "json" | "yaml" | undefined {
  if (/\.json$/i.test(file)) return "json"
  return /\.ya?ml$/i.test(file) ? "yaml" : undefined
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "does not exist. Check the path; it is relative to the current directory.",
  ENOTDIR: "does not exist: a part of its path is a file, not a directory.",
  EACCES: "cannot be read: permission denied. Change its mode or run as its owner.",
  EPERM: "cannot be read: permission denied. Change its mode or run as its owner.",
}

async function readBytes(file: string): Promise<Buffer> {
  try {
    if ((await stat(file)).isDirectory()) {
      throw new UmbraError("E601", `${file} is a directory. Name a file in it.`)
    }
    return await readFile(file)
  } catch (error) {
    if (error instanceof UmbraError) throw error
    const { code = "", message } = error as NodeJS.ErrnoException
    throw new UmbraError("E601", `${file} ${reasons[code] ?? `cannot be read: ${message}`}`, { cause: error })
  }
}

function decode(bytes: Buffer, name: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes)
  } catch (error) {
    throw new UmbraError("E601", `${name} is not UTF-8 text. Save it as UTF-8.`, { cause: error })
  }
}

/** Options of `run` and `submit` for a job. */
export interface SubmissionFlags {
  readonly ttl?: number | "never"
  readonly label?: Readonly<Record<string, string>>
  readonly idempotencyKey?: string
  readonly priority?: number
  readonly startAt?: number
  readonly delay?: number
}

export function submitOptions(flags: SubmissionFlags): SubmitOptions {
  const { ttl, label, idempotencyKey, priority } = flags
  return { ttlSeconds: ttlSeconds(ttl), labels: label, idempotencyKey, priority, ...startOptions(flags) }
}

/** `--ttl`; null: never. */
export function ttlSeconds(ttl: SubmissionFlags["ttl"]): number | null | undefined {
  return ttl === "never" ? null : ttl
}

/** `--start-at`, `--delay`, as milliseconds. */
export function startOptions({ startAt, delay }: Pick<SubmissionFlags, "startAt" | "delay">): StartOptions {
  return {
    startAt: startAt === undefined ? undefined : new Date(startAt).toISOString(),
    delaySeconds: delay === undefined ? undefined : delay / 1000,
  }
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
