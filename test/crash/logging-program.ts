/**
 * Runs a handler that logs each line after it has written it to a file; for tests that kill it. The first lines, as many as the
 * third argument says, it logs at once. It prints the id of the job, "stored" when the first lines are in the store, and "recorded"
 * when the start of the handler is: what runs for less than a second leaves no attempt if its process dies.
 */
import { appendFileSync } from "node:fs"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { messageOf } from "./logged-message.ts"

const [location, oracle, atOnce = "0"] = process.argv.slice(2) as [string, string, string?]
const BURST = 500

const talk = defineHandler({
  name: "talk",
  async run(_, ctx) {
    for (let line = 1; ; ) {
      const count = line < Number(atOnce) ? BURST : 1
      const numbers = Array.from({ length: count }, () => line++)
      appendFileSync(oracle, `${numbers.join("\n")}\n`)
      for (const number of numbers) ctx.log.info({ line: number }, messageOf(number))
      await new Promise(resolve => setTimeout(resolve, 2))
    }
  },
})

const umbra = await openUmbra(location, {
  handlers: [talk],
  worker: { maxLogLines: 1_000_000, maxLogBytes: 1_000_000_000 },
})
const { id } = await umbra.submit({ name: "talks", nodes: [{ id: "a", handler: "talk" }] } as never)
process.stdout.write(`${id}\n`)
while ((await umbra.queries.logs.page(id, { limit: 1, source: "handler" })).lines.length === 0)
  await new Promise(resolve => setTimeout(resolve, 20))
process.stdout.write("stored\n")
while ((await umbra.graph(id)).nodes[0]!.status !== "RUNNING")
  await new Promise(resolve => setTimeout(resolve, 20))
process.stdout.write("recorded\n")
