/** Fields that documents with nodes and documents with routes have in common. */
import { z } from "zod"

/** A hundred years. Longer timers are a mistake, and would overflow a date. */
const maxSeconds = 3_155_760_000

export const seconds = (what: string) => z.number().positive().max(maxSeconds).describe(what)

/** Names are stored and compared as text without control characters and lone surrogates. */
export const label = (what: string) =>
  z
    .string()
    .min(1)
    .max(200)
    .regex(/^[^\p{Cc}\p{Surrogate}]*$/u, "text without control characters and lone surrogates")
    .describe(what)

interface Bounds {
  readonly min?: number
  readonly max: number
}

export const count = (what: string, { min = 1, max }: Bounds) =>
  z.int().min(min).max(max).nullish().describe(what)

export const amount = (what: string, { min = 0, max }: Bounds) =>
  z.number().min(min).max(max).nullish().describe(what)

export const flag = (what: string) => z.boolean().nullish().describe(what)

export const anyMapping = (what: string) => z.record(z.string(), z.unknown()).nullish().describe(what)

export const documentFields = {
  $schema: z.string().nullish().describe("For editors; not part of the content."),
  name: label("Name of the workflow."),
  description: z.string().max(10_000).nullish(),
  input: anyMapping("JSON Schema (2020-12) of the job's input. Defaults in it are applied."),
  ttl_seconds: seconds("The job expires (EXPIRED) if it has not ended after this time.").nullish(),
}

interface Backoff {
  readonly initial_seconds: number
  readonly max_seconds: number
  readonly multiplier: number
  readonly jitter: number
}

/** How long to wait before a retry. */
export function backoffFields(defaults: Backoff) {
  const wait = (what: string) => amount(what, { max: maxSeconds })
  return {
    initial_seconds: wait(`Wait before the second attempt. Default ${defaults.initial_seconds}.`),
    max_seconds: wait(`The longest wait. Default ${defaults.max_seconds}.`),
    multiplier: amount(`Each wait is this many times the previous one. Default ${defaults.multiplier}.`, {
      min: 1,
      max: 100,
    }),
    jitter: amount(`Share of the wait that is random, 0 to 1. Default ${defaults.jitter}.`, { max: 1 }),
  }
}
