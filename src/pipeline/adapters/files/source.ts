/** `file_source` and `jsonl_source`: each message reads one step of a file. */
import { type FileHandle, open } from "node:fs/promises"
import { z } from "zod"
import type { Json } from "../../../core/json.ts"
import type { AdapterSpec } from "../../../definition/adapter.ts"
import { integerField } from "../../../definition/config-fields.ts"
import { finalError, type HandlerError } from "../../../worker/fail.ts"
import { type AdapterContext, defineBuiltInAdapter, type Message } from "../../adapter.ts"
import { continuation, continuedAt, named, optionalName } from "../body.ts"
import { type AllowedFiles, readFault } from "./allowed.ts"

const lineConfig = {
  path: z.string().min(1).describe("The file. It must be allowed by UMBRA_ALLOW_FILES."),
  lines_per_step: integerField(
    100_000,
    1_000,
    "Lines read for one message; the next message continues. Default 1000.",
  ),
  bytes_per_step: integerField(
    64 * 1024 * 1024,
    1024 * 1024,
    "A step ends after the line that reaches this many bytes. Default 1 MiB.",
  ),
  max_line_bytes: integerField(16 * 1024 * 1024, 512 * 1024, "A longer line is invalid. Default 512 KiB."),
  kind: z.string().min(1).default("default").describe('The kind of the emitted lines. Default "default".'),
  invalid: z
    .enum(["fail", "emit", "skip"])
    .default("fail")
    .describe(
      "An invalid line fails the message (default), is emitted as { line, error } with kind " +
        '"invalid", or is skipped.',
    ),
}

type LineConfig = z.output<z.ZodObject<typeof lineConfig>>

/** The kinds of the messages that the lines of a file become. */
function lineKinds({
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

interface SourceStep {
  readonly message: Message
  readonly context: AdapterContext<LineConfig>
  readonly files: AllowedFiles
  /** Returns the body for a line; throws if the line is invalid. */
  readonly lineBody: (line: number, text: string) => Json | undefined
}

/** Emits the lines of one step, and continues with the next step if there is more. */
async function emitLines({ message, context, files, lineBody }: SourceStep): Promise<void> {
  const { config } = context
  const path = await files.locate(config.path, context.owner)
  const { lines, next, isEnd } = await readStep(path, readCursor(message), context)
  for (const line of lines) {
    const usable = attempt(() => lineBody(line.line, lineText(line, config)))
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
      const step = await readLines(file, cursor, readLimits(config), signal)
      return { ...step, next: { ...step.next, size: Math.max(size, step.next.offset) } }
    } finally {
      await file.close()
    }
  } catch (error) {
    throw readFault(path, error)
  }
}

const readLimits = ({ lines_per_step, bytes_per_step, max_line_bytes }: LineConfig) => ({
  lines: lines_per_step,
  bytes: bytes_per_step,
  lineBytes: max_line_bytes,
})

function readCursor(message: Message): Cursor {
  const continued = continuedAt(message)
  if (continued === undefined) return { offset: 0, line: 1, size: 0 }
  const { offset, line, size, passing } = cursorSchema.parse(continued)
  return { offset, line, size, ...(passing === undefined ? {} : { passing }) }
}

function lineText({ text }: Line, { max_line_bytes }: LineConfig): string {
  if (text !== null) return text
  throw new Error(`it is longer than max_line_bytes (${max_line_bytes})`)
}

function unusable(context: AdapterContext<LineConfig>, line: number, error: unknown): void {
  const { path, invalid } = context.config
  const why = (error as Error).message
  if (invalid === "emit") context.emit({ line, error: why }, { kind: "invalid" })
  if (invalid !== "fail") return
  throw finalError("E724", `Line ${line} of ${path} is invalid: ${why}.`, { line })
}

function shrunk(path: string, size: number, before: number): HandlerError {
  return finalError(
    "E722",
    `${path} has become shorter while it was read (${before} bytes before, ${size} now): the position of the next line is no longer valid. Submit the pipeline again to read the file from its start.`,
  )
}

/** `file_source`: reads the lines of a file in bounded steps, or the whole text of a small file. */
const fileSourceConfig = z.strictObject({
  ...lineConfig,
  read: z
    .enum(["lines", "text"])
    .default("lines")
    .describe(
      "lines (default): each is emitted as { line, text }, and the chain ends. text: the next adapter receives { path, text }.",
    ),
  max_text_bytes: integerField(
    16 * 1024 * 1024,
    1024 * 1024,
    "With read: text, a longer file fails the message. Default 1 MiB.",
  ),
  as: optionalName("With read: text, the text is added to the message under this name."),
})

export const fileSourceSpec = {
  type: "file_source",
  config: fileSourceConfig,
  emits: (given: z.output<typeof fileSourceConfig>) => (given.read === "text" ? [] : lineKinds(given)),
} satisfies AdapterSpec

export const fileSource = (files: AllowedFiles) =>
  defineBuiltInAdapter({
    ...fileSourceSpec,
    async process(message, context) {
      const { read, path, max_text_bytes, as } = context.config
      if (read === "lines") {
        return emitLines({ message, context, files, lineBody: (line, text) => ({ line, text }) })
      }
      const text = await readText(await files.locate(path, context.owner), max_text_bytes)
      return as === undefined ? { path, text } : named(message, as, text)
    },
  })

/** Reads at most one byte more than is allowed, whatever length the file reports. */
async function readText(path: string, maxBytes: number): Promise<string> {
  const bytes = await head(path, maxBytes + 1).catch(error => {
    throw readFault(path, error)
  })
  if (bytes.length <= maxBytes) return bytes.toString().replace(/^\uFEFF/, "")
  throw finalError(
    "E722",
    `${path} is longer than max_text_bytes (${maxBytes}). Raise it, or read its lines (read: lines).`,
  )
}

async function head(path: string, length: number): Promise<Buffer> {
  const file = await open(path, "r")
  try {
    const { size } = await file.stat()
    const buffer = Buffer.allocUnsafe(Math.min(size + 1, length))
    let filled = 0
    while (filled < buffer.length) {
      const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, filled)
      if (bytesRead === 0) break
      filled += bytesRead
    }
    return buffer.subarray(0, filled)
  } finally {
    await file.close()
  }
}

/** `jsonl_source`: reads a file with one JSON value per line, in bounded steps. Skips empty lines. */
export const jsonlSourceSpec = {
  type: "jsonl_source",
  config: z.strictObject(lineConfig),
  emits: lineKinds,
} satisfies AdapterSpec

export const jsonlSource = (files: AllowedFiles) =>
  defineBuiltInAdapter({
    ...jsonlSourceSpec,
    process: (message, context) => emitLines({ message, context, files, lineBody: parseLine }),
  })

function parseLine(_: number, text: string): Json | undefined {
  if (text.trim() === "") return undefined
  try {
    return JSON.parse(text) as Json
  } catch (error) {
    throw new Error(`it is not JSON (${(error as Error).message})`)
  }
}

/**
 * Reads lines of a file from a byte offset, a bounded number at a time.
 *
 * 1. Lines are cut as bytes and decoded as a whole, so a character is never split at the boundary of two
 *    reads.
 * 2. At most the bytes of the step, one line and one chunk are in memory, however long the file or a line is.
 * 3. A step ends between two lines, or inside a line that is too long and is being skipped.
 */
interface LineCursor {
  /** The byte at which the next line begins, or at which the rest of a line that is too long continues. */
  readonly offset: number
  /** The number of the next line, from 1. */
  readonly line: number
  /** The position is inside a line that is too long. */
  readonly passing?: boolean
}

interface StepLimits {
  readonly lines: number
  readonly bytes: number
  readonly lineBytes: number
}

/** `text` null: the line is too long. */
interface Line {
  readonly line: number
  readonly text: string | null
}

interface LineStep {
  readonly lines: readonly Line[]
  readonly next: LineCursor
  readonly isEnd: boolean
}

const chunkBytes = 64 * 1024
const newline = 0x0a
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf])

async function readLines(
  file: FileHandle,
  from: LineCursor,
  limits: StepLimits,
  signal: AbortSignal,
): Promise<LineStep> {
  const step = new Step(from, limits)
  for (let position = from.offset; ; ) {
    signal.throwIfAborted()
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(chunkBytes), 0, chunkBytes, position)
    if (bytesRead === 0) return step.atEnd()
    position += bytesRead
    if (step.take(buffer.subarray(0, bytesRead))) return step.result(false)
  }
}

class Step {
  readonly #from: number
  readonly #limits: StepLimits
  readonly #lines: Line[] = []
  /** The parts of the line that is being read. */
  #parts: Buffer[] = []
  #partBytes = 0
  #isPassing: boolean
  /** Everything before it is processed. */
  #offset: number
  #line: number

  constructor({ offset, line, passing = false }: LineCursor, limits: StepLimits) {
    this.#limits = limits
    this.#from = offset
    this.#offset = offset
    this.#line = line
    this.#isPassing = passing
  }

  /** Returns true if the step is full. */
  take(chunk: Buffer): boolean {
    let start = 0
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      this.#add(chunk.subarray(start, end))
      start = end + 1
      this.#endLine(1)
      if (this.#isFull()) return true
    }
    this.#add(chunk.subarray(start))
    return this.#isPassing && this.#isFull()
  }

  atEnd(): LineStep {
    if (this.#partBytes > 0 || this.#isPassing) this.#endLine(0)
    return this.result(true)
  }

  result(isEnd: boolean): LineStep {
    const next = { offset: this.#offset, line: this.#line, ...(this.#isPassing ? { passing: true } : {}) }
    return { lines: this.#lines, next, isEnd }
  }

  #isFull(): boolean {
    return this.#lines.length >= this.#limits.lines || this.#offset - this.#from >= this.#limits.bytes
  }

  #add(part: Buffer): void {
    if (!this.#isPassing) {
      this.#parts.push(part)
      this.#partBytes += part.length
      if (this.#partBytes <= this.#limits.lineBytes) return
      this.#isPassing = true
      this.#offset += this.#partBytes
      this.#parts = []
      this.#partBytes = 0
      this.#lines.push({ line: this.#line, text: null })
      return
    }
    this.#offset += part.length
  }

  #endLine(separator: number): void {
    if (!this.#isPassing) this.#lines.push({ line: this.#line, text: this.#text() })
    this.#offset += this.#partBytes + separator
    this.#line++
    this.#parts = []
    this.#partBytes = 0
    this.#isPassing = false
  }

  #text(): string {
    let bytes = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts)
    if (this.#line === 1 && bytes.subarray(0, 3).equals(byteOrderMark)) bytes = bytes.subarray(3)
    if (bytes.at(-1) === 0x0d) bytes = bytes.subarray(0, -1)
    return bytes.toString()
  }
}
