/** A worker of the fleet in a separate process (see fleet.ts). */
import { defineHandler, openWorker } from "umbra"

const noop = defineHandler({ name: "noop", run: () => ({ ok: true, i: 1 }) })
const waited = defineHandler({ name: "waited", run: ({ at }) => Date.now() - at })
const nap = defineHandler({
  name: "nap",
  run: () => new Promise(resolve => setTimeout(() => resolve(null), 200)),
})
const [url, prefix] = process.argv.slice(2)
openWorker(url, {
  handlers: [noop, waited, nap],
  queues: ["noop", "waited", "nap"],
  worker: { concurrency: 500 },
  redis: { prefix, prefetch: 500 },
})
