/**
 * A source that is faster than what follows it, on the built package. What it uses is said on the way, one JSON a line.
 *
 *     node --expose-gc backlog-program.js LOCATION COUNT MAX_QUEUED
 *
 * It ends when the source has emitted COUNT messages and some have been taken, or, bounded, when all has drained.
 */
import { z } from "zod"
import { defineAdapter, openUmbra } from "../../dist/index.js"

const [location, count, maxQueued] = process.argv.slice(2)
const STEP = 1000
const isBounded = Number(maxQueued) < Number(count)
const config = z.unknown()

const source = defineAdapter({
  type: "source",
  config,
  process({ body: { from } }, context) {
    for (let n = from; n < from + STEP; n++)
      context.emit({ n, text: "a message of about a hundred bytes, as they are".repeat(2) })
    if (from + STEP < Number(count)) context.continueWith({ from: from + STEP })
  },
})
const slow = defineAdapter({
  type: "slow",
  config,
  process: () => (isBounded ? undefined : new Promise(resolve => setTimeout(resolve, 20))),
})

const umbra = await openUmbra(location, { adapters: [source, slow] })
const { id } = await umbra.submit({
  name: "backlog",
  init: { body: { from: 0 } },
  routes: [
    { name: "source", inbound: "source", adapters: [{ type: "source" }], outbound: "slow" },
    {
      ...{ name: "slow", inbound: "slow", adapters: [{ type: "slow" }], concurrency: 2 },
      ...(isBounded ? { rate: 20_000 } : {}),
      backpressure: { max_queued: Number(maxQueued) },
    },
  ],
})

for (;;) {
  await new Promise(resolve => setTimeout(resolve, 250))
  const [from, to] = (await umbra.graph(id)).routes
  globalThis.gc()
  const { rss, heapUsed } = process.memoryUsage()
  const queued = to.queued + to.in_flight
  console.log(JSON.stringify({ emitted: from.done * STEP, queued, done: to.done, rss, heap: heapUsed }))
  if (from.done * STEP >= Number(count) && to.done > 0 && (!isBounded || queued === 0)) break
}
await umbra.close()
