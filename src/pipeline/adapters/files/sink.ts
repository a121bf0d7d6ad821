/** `file_sink` and `jsonl_sink`: each message is written exactly once. */
import { createHash } from "node:crypto"
import { mkdir, open, rename } from "node:fs/promises"
import { dirname } from "node:path"
import { z } from "zod"
import type { Json } from "../../../core/json.ts"
import type { AdapterSpec } from "../../../definition/adapter.ts"
import { secondsField } from "../../../definition/config-fields.ts"
import { syncFolders } from "../../../sync-folders.ts"
import { type AdapterContext, defineBuiltInAdapter, type Message } from "../../adapter.ts"
import { refuseGathered } from "../body.ts"
import { type AllowedFiles, writeFault } from "./allowed.ts"
import { appendOnce } from "./append-log.ts"

const sinkConfig = {
  path: z
    .string()
    .min(1)
    .describe("The file. It must be allowed by UMBRA_ALLOW_FILES. It and its folder are created if needed."),
  mode: z
    .enum(["append", "write"])
    .default("append")
    .describe("append (default): writes at the end of the file. write: the message replaces the file."),
  sync: z
    .boolean()
    .default(true)
    .describe(
      "Data is on the disk before the message is acknowledged: nothing is lost or duplicated even when the " +
        "machine dies. false: only when the process dies. Default true.",
    ),
  release_seconds: secondsField(
    3_600,
    5,
    "After this time without an append, another process may append to the file. Default 5.",
  ),
}

type SinkConfig = z.output<z.ZodObject<typeof sinkConfig>>

interface Writing {
  readonly message: Message
  readonly context: AdapterContext<SinkConfig>
  readonly files: AllowedFiles
  readonly text: string
}

async function writeOnce({ message, context, files, text }: Writing): Promise<void> {
  const { config, signal } = context
  const path = await files.locate(config.path, context.owner)
  const bytes = Buffer.from(text)
  if (config.mode === "write") return replaceFile({ path, bytes, sync: config.sync, context })
  refuseGathered(context)
  const mark = messageMark(message, context)
  const releaseSeconds = config.release_seconds
  await appendOnce({ path, bytes, mark, sync: config.sync, signal, releaseSeconds })
}

function messageMark(message: Message, { jobId, route, idempotencyKey }: AdapterContext) {
  const seq = Number(/:(\d+)$/.exec(message.id)?.[1])
  // The key without the message distinguishes the sinks of one route.
  const sink = idempotencyKey.includes(message.id) ? idempotencyKey.replace(message.id, "") : ""
  return { name: digest(JSON.stringify([jobId, route, sink])), seq }
}

const digest = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 32)

interface Replacement {
  readonly path: string
  readonly bytes: Buffer
  readonly sync: boolean
  readonly context: AdapterContext
}

/** A reader of the file sees the old content or the new. Redelivery writes the same content again. */
async function replaceFile({ path, bytes, sync, context }: Replacement): Promise<void> {
  const draft = `${path}.${digest(context.idempotencyKey)}.draft`
  context.signal.throwIfAborted()
  try {
    await mkdir(dirname(path), { recursive: true })
    const file = await open(draft, "w")
    try {
      await file.writeFile(bytes)
      if (sync) await file.datasync()
    } finally {
      await file.close()
    }
    await rename(draft, path)
    if (sync) await syncFolders(dirname(path))
  } catch (error) {
    throw writeFault(path, error)
  }
}

/** `file_sink`: appends text to a file, or writes it as a file. The message continues unchanged. */
const fileSinkConfig = z.strictObject({
  ...sinkConfig,
  text: z
    .union([z.string(), z.array(z.string())])
    .optional()
    .describe(
      "What to write; a list is one line per item. Default: the message, unchanged if it is text, else as JSON.",
    ),
  newline: z
    .boolean()
    .default(true)
    .describe("Every line ends with a newline, including the last. Default true; false: no newlines."),
})

export const fileSinkSpec = {
  type: "file_sink",
  config: fileSinkConfig,
  storesConfig: true,
  writesOnce: () => true,
} satisfies AdapterSpec

export const fileSink = (files: AllowedFiles) =>
  defineBuiltInAdapter({
    ...fileSinkSpec,
    async process(message, context) {
      const { text, newline } = context.config
      const lines = text === undefined ? [asText(message.body)] : [text].flat()
      const end = newline ? "\n" : ""
      await writeOnce({ message, context, files, text: lines.map(line => `${line}${end}`).join("") })
      return message.body
    },
  })

const asText = (body: Json) => (typeof body === "string" ? body : JSON.stringify(body))

/** `jsonl_sink`: appends values to a file, one JSON value per line. The message continues unchanged. */
const jsonlSinkConfig = z.strictObject({
  ...sinkConfig,
  value: z.unknown().optional().describe("What to write. Default: the message."),
  each: z
    .boolean()
    .default(true)
    .describe("A list becomes one line per item. Default true; false: one line."),
})

export const jsonlSinkSpec = {
  type: "jsonl_sink",
  config: jsonlSinkConfig,
  storesConfig: true,
  writesOnce: () => true,
} satisfies AdapterSpec

export const jsonlSink = (files: AllowedFiles) =>
  defineBuiltInAdapter({
    ...jsonlSinkSpec,
    async process(message, context) {
      const { value, each } = context.config
      const given = value === undefined ? message.body : (value as Json)
      const values: readonly Json[] = each && Array.isArray(given) ? given : [given]
      const text = values.map(each => `${JSON.stringify(each)}\n`).join("")
      await writeOnce({ message, context, files, text })
      return message.body
    },
  })
