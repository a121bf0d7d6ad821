/** `jsonl_source`: reads a file with one JSON value per line, in bounded steps. Skips empty lines. */
import { z } from "zod"
import type { Json } from "../../../core/json.ts"
import type { AdapterSpec } from "../../../definition/adapter.ts"
import { defineAdapter } from "../../adapter.ts"
import type { AllowedFiles } from "./allowed.ts"
import { emitLines, lineConfig, lineKinds } from "./source.ts"

export const jsonlSourceSpec = {
  type: "jsonl_source",
  config: z.strictObject(lineConfig),
  emits: lineKinds,
} satisfies AdapterSpec

export const jsonlSource = (files: AllowedFiles) =>
  defineAdapter({
    ...jsonlSourceSpec,
    process: (message, context) => emitLines({ message, context, files, bodyOf }),
  })

function bodyOf(_: number, text: string): Json | undefined {
  if (text.trim() === "") return undefined
  try {
    return JSON.parse(text) as Json
  } catch (error) {
    throw new Error(`it is not JSON (${(error as Error).message})`)
  }
}
