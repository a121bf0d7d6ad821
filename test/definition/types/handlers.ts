/** Handlers with schemas of every kind the builder takes its types from. */
import { z } from "zod"
import type { HandlerSpec } from "../../../src/definition/handler.ts"

export const fetchPage = {
  name: "fetch_page",
  config: z.object({
    url: z.string(),
    method: z.enum(["GET", "POST"]).default("GET"),
    headers: z.record(z.string(), z.string()).optional(),
    retries: z.array(z.object({ after: z.number() })).optional(),
  }),
  output: z.object({
    body: z.string(),
    status: z.number(),
    title: z.string().optional(),
    etag: z.string().nullable(),
    items: z.array(z.object({ name: z.string(), price: z.number() })),
    size: z.tuple([z.number(), z.string()]),
    headers: z.record(z.string(), z.string()),
    meta: z.object({ lang: z.string() }).optional(),
    "content-type": z.string(),
    raw: z.unknown(),
    loose: z.any(),
  }),
} satisfies HandlerSpec

export const llm = {
  name: "llm",
  config: z.object({ prompt: z.string(), temperature: z.number().optional() }),
  output: z.object({ text: z.string(), tokens: z.number() }),
} satisfies HandlerSpec

/** Its schemas' own types are gone, as in a list of handlers: only what is left of them can be used. */
export const erased: HandlerSpec<{ n: number }, { doubled: number }> = {
  name: "erased",
  config: z.object({ n: z.number() }),
  output: z.object({ doubled: z.number() }),
}

/** No schema at all: any JSON goes in, unknown JSON comes out. */
export const opaque = { name: "opaque" } satisfies HandlerSpec
