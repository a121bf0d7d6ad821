/** One engine and its load, in a separate process (see crowd.ts). Prints nodes per second. */
import { defineHandler, openUmbra } from "umbra"

const noop = defineHandler({ name: "noop", run: () => ({ ok: true }) })
const umbra = await openUmbra(process.argv[2], {
  handlers: [noop],
  worker: { concurrency: 1000 },
  engine: { beatSeconds: 0.3 },
})
const nodes = Array.from({ length: 10 }, (_, i) => ({
  id: `n${i}`,
  handler: "noop",
  dependencies: i === 0 ? [] : [`n${i - 1}`],
}))
const definition = { name: "chain", nodes }
await (await umbra.submit(definition, {})).wait()
// The other engine needs a few heartbeats to get its share of the partitions.
await new Promise(resolve => setTimeout(resolve, 3000))
const end = performance.now() + 8000
let done = 0
const lane = async () => {
  while (performance.now() < end) {
    await (await umbra.submit(definition, {})).wait()
    done++
  }
}
await Promise.all(Array.from({ length: 100 }, lane))
console.log((done * 10) / 8)
await umbra.close()
