/** The common part of `file_source` and `jsonl_source`: each message reads one step of a file. */
import { open } from "node:fs/promises"
import { z } from "zod"
import type { Json } from "../../../core/json.ts"
import { HandlerError } from "../../../worker/fail.ts"
import type { AdapterContext, Message } from "../../adapter.ts"
import { continuation, continuedAt } from "../continuation.ts"
import type { AllowedFiles } from "./allowed.ts"
import { readFault } from "./faults.ts"
import { type Line, type LineCursor, readLines } from "./lines.ts"

export const lineConfig = {
  path: z.string().min(1).describe("The file. It must be allowed by UMBRA_ALLOW_FILES."),
  lines_per_step: z
    .int()
    .min(1)
    .max(100_000)
    .default(1_000)
    .describe("Lines read for one message; the next message continues. Default 1000."),
  bytes_per_step: z
    .int()
    .min(1)
    .max(64 * 1024 * 1024)
    .default(1024 * 1024)
    .describe("A step ends after the line that reaches this many bytes. Default 1 MiB."),
  max_line_bytes: z
    .int()
    .min(1)
    .max(16 * 1024 * 1024)
    .default(512 * 1024)
    .describe("A longer line is invalid. Default 512 KiB."),
  kind: z.string().min(1).default("default").describe('The kind of the emitted lines. Default "default".'),
  invalid: z
    .enum(["fail", "emit", "skip"])
    .default("fail")
    .describe(
      "An invalid line fails the message (default), is emitted as { line, error } with kind " +
        '"invalid", or is skipped.',
    ),
}

export type LineConfig = z.output<z.ZodObject<typeof lineConfig>>

/** The kinds of the messages that the lines of a file become. */
export function lineKinds({
  kind = "default",
  invalid,
}: Partial<Pick<LineConfig, "kind" | "invalid">>): readonly string[] {
  return invalid === "emit" ? [kind, "invalid"] : [kind]
}

interface Cursor extends LineCursor {
  /** The length of the file when the previous step ended. */
  readonly size: number
}

const cursorSchema = z.object({
  offset: z.int().min(0),
  line: z.int().min(1),
  size: z.int().min(0),
  passing: z.boolean().optional(),
})

export interface SourceStep {
  readonly message: Message
  readonly context: AdapterContext<LineConfig>
  readonly files: AllowedFiles
  /** Returns the body for a line; throws if the line is invalid. */
  readonly bodyOf: (line: number, text: string) => Json | undefined
}

/** Emits the lines of one step, and continues with the next step if there is more. */
export async function emitLines({ message, context, files, bodyOf }: SourceStep): Promise<void> {
  const { config } = context
  const path = await files.locate(config.path, context.owner)
  const { lines, next, isEnd } = await readStep(path, cursorOf(message), context)
  for (const line of lines) {
    const usable = attempt(() => bodyOf(line.line, textOf(line, config)))
    if ("error" in usable) unusable(context, line.line, usable.error)
    else if (usable.body !== undefined) context.emit(usable.body, { kind: config.kind })
  }
  if (!isEnd) context.continueWith(continuation(message, { ...next }))
}

/** Catches only errors in the line: an error of `emit` is not caught. */
function attempt(
  read: () => Json | undefined,
): { readonly body: Json | undefined } | { readonly error: unknown } {
  try {
    return { body: read() }
  } catch (error) {
    return { error }
  }
}

async function readStep(path: string, cursor: Cursor, { config, signal }: AdapterContext<LineConfig>) {
  try {
    const file = await open(path, "r")
    try {
      const { size } = await file.stat()
      if (size < cursor.size) throw shrunk(path, size, cursor.size)
      const step = await readLines(file, cursor, limitsOf(config), signal)
      return { ...step, next: { ...step.next, size: Math.max(size, step.next.offset) } }
    } finally {
      await file.close()
    }
  } catch (error) {
    throw readFault(path, error)
  }
}

const limitsOf = ({ lines_per_step, bytes_per_step, max_line_bytes }: LineConfig) => ({
  lines: lines_per_step,
  bytes: bytes_per_step,
  lineBytes: max_line_bytes,
})

function cursorOf(message: Message): Cursor {
  const continued = continuedAt(message)
  if (continued === undefined) return { offset: 0, line: 1, size: 0 }
  const { offset, line, size, passing } = cursorSchema.parse(continued)
  return { offset, line, size, ...(passing === undefined ? {} : { passing }) }
}

function textOf({ text }: Line, { max_line_bytes }: LineConfig): string {
  if (text !== null) return text
  throw new Error(`it is longer than max_line_bytes (${max_line_bytes})`)
}

function unusable(context: AdapterContext<LineConfig>, line: number, error: unknown): void {
  const { path, invalid } = context.config
  const why = (error as Error).message
  if (invalid === "emit") context.emit({ line, error: why }, { kind: "invalid" })
  if (invalid !== "fail") return
  throw new HandlerError(`Line ${line} of ${path} is invalid: ${why}.`, {
    code: "E724",
    retryable: false,
    details: { line },
  })
}

function shrunk(path: string, size: number, before: number): HandlerError {
  return new HandlerError(
    `${path} has become shorter while it was read (${before} bytes before, ${size} now): the position of the next line is no longer valid. Submit the pipeline again to read the file from its start.`,
    { code: "E722", retryable: false },
  )
}
