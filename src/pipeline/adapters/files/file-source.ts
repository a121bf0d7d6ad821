/** `file_source`: reads the lines of a file in bounded steps, or the whole text of a small file. */
import { open } from "node:fs/promises"
import { z } from "zod"
import type { AdapterSpec } from "../../../definition/adapter.ts"
import { HandlerError } from "../../../worker/fail.ts"
import { defineAdapter } from "../../adapter.ts"
import { named } from "../body.ts"
import type { AllowedFiles } from "./allowed.ts"
import { readFault } from "./faults.ts"
import { emitLines, lineConfig, lineKinds } from "./source.ts"

const config = z.strictObject({
  ...lineConfig,
  read: z
    .enum(["lines", "text"])
    .default("lines")
    .describe(
      "lines (default): each is emitted as { line, text }, and the chain ends. text: the next adapter receives { path, text }.",
    ),
  max_text_bytes: z
    .int()
    .min(1)
    .max(16 * 1024 * 1024)
    .default(1024 * 1024)
    .describe("With read: text, a longer file fails the message. Default 1 MiB."),
  as: z
    .string()
    .min(1)
    .optional()
    .describe("With read: text, the text is added to the message under this name."),
})

export const fileSourceSpec = {
  type: "file_source",
  config,
  emits: (given: z.output<typeof config>) => (given.read === "text" ? [] : lineKinds(given)),
} satisfies AdapterSpec

export const fileSource = (files: AllowedFiles) =>
  defineAdapter({
    ...fileSourceSpec,
    async process(message, context) {
      const { read, path, max_text_bytes, as } = context.config
      if (read === "lines") {
        return emitLines({ message, context, files, bodyOf: (line, text) => ({ line, text }) })
      }
      const text = await textOf(await files.locate(path, context.owner), max_text_bytes)
      return as === undefined ? { path, text } : named(message, as, text)
    },
  })

/** Reads at most one byte more than is allowed, whatever length the file reports. */
async function textOf(path: string, maxBytes: number): Promise<string> {
  const bytes = await head(path, maxBytes + 1).catch(error => {
    throw readFault(path, error)
  })
  if (bytes.length <= maxBytes) return bytes.toString().replace(/^\uFEFF/, "")
  throw new HandlerError(
    `${path} is longer than max_text_bytes (${maxBytes}). Raise it, or read its lines (read: lines).`,
    { code: "E722", retryable: false },
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
