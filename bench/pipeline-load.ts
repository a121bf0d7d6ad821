/** A pipeline of `adapters` steps that do nothing, and its source. */
import { defineAdapter } from "umbra"
import { z } from "zod"

const nothing = z.strictObject({}).optional()

/** Emits the numbers from 1 to `count`, a thousand per message. */
const source = defineAdapter({
  type: "bench_source",
  config: nothing,
  process({ body }, { emit, continueWith }) {
    const { count, from = 1 } = body as { count: number; from?: number }
    const to = Math.min(count, from + 999)
    for (let n = from; n <= to; n++) emit({ n, text: "some words of a message" })
    if (to < count) continueWith({ count, from: to + 1 })
  },
})

const step = defineAdapter({
  type: "bench_step",
  config: nothing,
  process: ({ body }) => ({ ...(body as { n: number }), isDone: true }),
})

let lastAt = 0
const last = defineAdapter({
  type: "bench_last",
  config: nothing,
  process() {
    lastAt = performance.now()
  },
})

export const adapters = [source, step, last]

/** When the last adapter was last called. */
export const lastCallAt = () => lastAt

export const pipeline = (adapters: number) => ({
  name: `bench_${adapters}`,
  init: { body: { count: "{{ input.count }}" } },
  routes: [
    { name: "source", inbound: "source", adapters: [{ type: "bench_source" }], outbound: "work" },
    {
      name: "work",
      inbound: "work",
      concurrency: 100,
      prefetch: 1000,
      adapters: [
        ...Array.from({ length: adapters - 1 }, () => ({ type: "bench_step" })),
        { type: "bench_last" },
      ],
    },
  ],
})
