/**
 * One job of 100,000 parallel nodes in a separate process (see engine.ts). Prints seconds and peak memory.
 */
import { defineHandler, openUmbra } from "umbra"

const noop = defineHandler({ name: "noop", run: () => ({ ok: true }) })
const umbra = await openUmbra(process.argv[2], { handlers: [noop], worker: { concurrency: 1000 } })
const nodes = Array.from({ length: 100_000 }, (_, i) => ({ id: `n${i}`, handler: "noop" }))
const begun = performance.now()
const { status } = await (await umbra.submit({ name: "large", nodes }, {})).wait()
const seconds = (performance.now() - begun) / 1000
if (status !== "COMPLETED") throw new Error(`the job is ${status}`)
console.log(JSON.stringify({ seconds, megabytes: Math.round(process.resourceUsage().maxRSS / 1024) }))
await umbra.close()
