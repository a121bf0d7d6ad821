/**
 * A process of its own that submits delayed jobs and kills itself at a given moment: `accepted`, when all submissions are
 * acknowledged; `before` or `after` the append that stores the first start.
 */
import { openJournal } from "../../src/journal/open.ts"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"

const [location = "", moment = "accepted", count = "1", delay = "1"] = process.argv.slice(2)
const journal = await openJournal(location)
const append = journal.append.bind(journal)
journal.append = async given => {
  const starts = given.facts.some(({ type }) => type === "job_started")
  if (starts && moment === "before") process.kill(process.pid, "SIGKILL")
  const result = await append(given)
  if (starts && moment === "after") process.kill(process.pid, "SIGKILL")
  return result
}
const act = defineHandler({ name: "act", run: (_config, { jobId }) => print(`ran ${jobId}`) })
const umbra = await openUmbra(journal, {
  handlers: [act],
  engine: { beatSeconds: 0.1, leaseSeconds: 1 },
})
await umbra.register({ name: "later", nodes: [{ id: "a", handler: "act" }] })
const inputs = Array.from({ length: Number(count) }, () => ({}))
const jobs = await umbra.submitMany("later", inputs, { delaySeconds: Number(delay) })
for (const { job } of jobs) await print(`accepted ${job!.id}`)
if (moment === "accepted") process.kill(process.pid, "SIGKILL")
await Promise.all(jobs.map(({ job }) => job!.wait()))
// It should have died before.
process.exit(1)

/** Resolves when the line is written: this process may die at any moment. */
function print(line: string): Promise<void> {
  return new Promise(resolve => process.stdout.write(`${line}\n`, () => resolve()))
}
