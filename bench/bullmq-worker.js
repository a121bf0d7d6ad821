/** A BullMQ worker in a separate process (see fleet.ts). */
import { Worker } from "bullmq"

const { hostname: host, port } = new URL(process.argv[2])
const worker = new Worker("noop", async () => ({ ok: true, i: 1 }), {
  connection: { host, port: Number(port), maxRetriesPerRequest: null },
  concurrency: 500,
})
await worker.waitUntilReady()
