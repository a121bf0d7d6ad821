// One process that works on the demo's folder: `submit` starts the job, `resume` waits for the one that was left.
// It reports to its parent, which may kill it at any moment.
import { appendFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { defineHandler, openUmbra } from "umbra"
import { orderWorkflow } from "./workflow.js"

const [folder, pricesUrl, task, givenJob] = process.argv.slice(2)
const say = (name, value) => process.send({ name, value })

/** Written at once, so that the parent can tell who ran what. */
function record(ctx) {
  const run = { node: ctx.nodeId, run: ctx.fence, pid: process.pid, key: ctx.idempotencyKey }
  appendFileSync(join(folder, "runs.log"), `${JSON.stringify(run)}\n`)
}

const checkStock = defineHandler({
  name: "check_stock",
  run(_config, ctx) {
    record(ctx)
    return { available: 3 }
  },
})

const packParcel = defineHandler({
  name: "pack_parcel",
  async run({ item }, ctx) {
    record(ctx)
    say("packing")
    // The first run is so long that the kill comes in its middle, however slow the machine.
    await sleep(ctx.fence === 1 ? 60_000 : 1000, undefined, { signal: ctx.signal })
    return { parcel: `a box with one ${item}` }
  },
})

const umbra = await openUmbra(join(folder, "data"), {
  handlers: [checkStock, packParcel],
  worker: { allowPrivateAddresses: ["127.0.0.1"] },
})
const job =
  task === "submit"
    ? await umbra.submit(orderWorkflow, {
        customer: "Ada",
        item: "compass",
        gift: false,
        prices_url: pricesUrl,
      })
    : umbra.handle(givenJob)
if (task === "submit") say("submitted", job.id)
for await (const event of job.watch()) process.send({ event })
const { status, output } = await job.wait()
const { nodes } = await job.graph()
say("finished", { status, output, nodes: Object.fromEntries(nodes.map(node => [node.id, node.status])) })
await umbra.close()
process.disconnect()
