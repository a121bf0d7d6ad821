/** A process of its own: submits bulks of one-node jobs and prints the ids of those that were accepted, until it is killed. */
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"

const [location = "", bulks = "1", jobs = "1"] = process.argv.slice(2)
const count = defineHandler({
  name: "count",
  run: async (_config, { input }) => {
    // A turn of the event loop each: the parent can kill this process while it drains its queue.
    await new Promise(resolve => setImmediate(resolve))
    return (input as { x: number }).x
  },
})
const workflow = { name: "single", nodes: [{ id: "a", handler: "count" }], output: "{{ a }}" }
const umbra = await openUmbra(location, { handlers: [count], worker: { concurrency: 4 } })
for (let bulk = 0; bulk < Number(bulks); bulk++) {
  const inputs = Array.from({ length: Number(jobs) }, (_, x) => ({ x }))
  const results = await umbra.submitMany(workflow, inputs)
  console.log(results.map(({ job, error }) => job?.id ?? String(error)).join(" "))
}
console.log("submitted")
setInterval(() => console.log(`live ${umbra.health().liveJobs}`), 20)
