/**
 * A process of its own that fires a schedule, and kills itself before or after its nth append that has a tick. It prints
 * the tick and the job of each run.
 */
import { openJournal } from "../../src/journal/open.ts"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"

const [location = "", moment = "before", at = "1"] = process.argv.slice(2)
const journal = await openJournal(location)
const append = journal.append.bind(journal)
let ticks = 0
journal.append = async given => {
  const isLast = given.schedules !== undefined && given.schedules.length > 0 && ++ticks === Number(at)
  if (isLast && moment === "before") process.kill(process.pid, "SIGKILL")
  const result = await append(given)
  if (isLast) process.kill(process.pid, "SIGKILL")
  return result
}
const witness = defineHandler({
  name: "witness",
  run: (config, { jobId }) =>
    new Promise<void>(resolve =>
      process.stdout.write(`${(config as { tick: string }).tick} ${jobId}\n`, () => resolve()),
    ),
})
await openUmbra(journal, { handlers: [witness], engine: { beatSeconds: 0.1, leaseSeconds: 1 } })
