/** The common part of `file_sink` and `jsonl_sink`. */
import { createHash } from "node:crypto"
import { mkdir, open, rename } from "node:fs/promises"
import { dirname } from "node:path"
import { z } from "zod"
import { syncFolders } from "../../../sync-folders.ts"
import type { AdapterContext, Message } from "../../adapter.ts"
import { refuseGathered } from "../gathered.ts"
import type { AllowedFiles } from "./allowed.ts"
import { appendOnce } from "./append-logs.ts"
import { writeFault } from "./faults.ts"

export const sinkConfig = {
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
  release_seconds: z
    .number()
    .positive()
    .max(3_600)
    .default(5)
    .describe("After this time without an append, another process may append to the file. Default 5."),
}

type SinkConfig = z.output<z.ZodObject<typeof sinkConfig>>

export interface Writing {
  readonly message: Message
  readonly context: AdapterContext<SinkConfig>
  readonly files: AllowedFiles
  readonly text: string
}

export async function writeOnce({ message, context, files, text }: Writing): Promise<void> {
  const { config, signal } = context
  const path = await files.locate(config.path, context.owner)
  const bytes = Buffer.from(text)
  if (config.mode === "write") return replaceFile({ path, bytes, sync: config.sync, context })
  refuseGathered(context)
  const mark = markOf(message, context)
  const releaseSeconds = config.release_seconds
  await appendOnce({ path, bytes, mark, sync: config.sync, signal, releaseSeconds })
}

function markOf(message: Message, { jobId, route, idempotencyKey }: AdapterContext) {
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
