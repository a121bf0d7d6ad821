/** Small pipelines for tests: adapters by name, and what they saw. */
import { z } from "zod"
import type { Json } from "../../src/core/json.ts"
import { type Adapter, type AdapterContext, defineAdapter, type Message } from "../../src/pipeline/adapter.ts"

type Process = (message: Message, context: AdapterContext<{ [key: string]: unknown }>) => unknown

const anyConfig = z.record(z.string(), z.unknown()).optional().default({})

/** An adapter of that type which takes any config. */
export function adapter(type: string, process: Process, gather?: Adapter["gather"]): Adapter {
  return defineAdapter({
    type,
    config: anyConfig,
    process: process as Adapter["process"],
    ...(gather === undefined ? {} : { gather }),
  })
}

/** Emits the numbers from 1 to `count`, a thousand to a message. */
export const numbers = adapter("numbers", ({ body }, context) => {
  const { count, from = 1, step = 1000 } = body as { count: number; from?: number; step?: number }
  const to = Math.min(count, from + step - 1)
  for (let n = from; n <= to; n++) context.emit({ n })
  if (to < count) context.continueWith({ count, from: to + 1, step })
})

/** Remembers what it is given, and passes it on. */
export function recorder(type = "record"): Adapter & { readonly seen: Json[] } {
  const seen: Json[] = []
  const record = adapter(type, ({ body }) => {
    seen.push(body)
    return body
  })
  return { ...record, seen }
}

export const route = (name: string, types: readonly (string | object)[], more: object = {}) => ({
  name,
  inbound: name,
  adapters: types.map(type => (typeof type === "string" ? { type } : type)),
  ...more,
})
