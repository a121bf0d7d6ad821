/**
 * A process of its own that pauses and resumes, and kills itself at a given moment.
 *
 * - `job`: pauses the job whose first node runs, and dies when the pause is acknowledged.
 * - `pausing`: pauses a workflow while jobs of it are submitted, and dies before, during or after the statement that stores
 *   the pause.
 * - `workflow`: pauses a workflow, submits jobs of it, resumes it, and dies before or after the nth append of that resumption.
 */
import { openJournal } from "../../src/journal/open.ts"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"

const [location = "", scenario = "", moment = "before", at = "1", count = "1"] = process.argv.slice(2)
const journal = await openJournal(location)
const append = journal.append.bind(journal)
let appends = Number.NEGATIVE_INFINITY
journal.append = async given => {
  const isLast = ++appends === Number(at)
  if (isLast && moment === "before") process.kill(process.pid, "SIGKILL")
  const result = await append(given)
  if (isLast) process.kill(process.pid, "SIGKILL")
  return result
}
let begun = () => {}
const began = new Promise<void>(resolve => {
  begun = resolve
})
const stays = defineHandler({
  name: "stays",
  run: () => {
    begun()
    return new Promise(() => {})
  },
})
const act = defineHandler({ name: "act", run: (_config, { jobId }) => print(`ran ${jobId}`) })
// All partitions can be taken at once by the process that follows.
const engine = { beatSeconds: 0.1, leaseSeconds: 1 }
const umbra = await openUmbra(journal, { handlers: [stays, act], engine })

if (scenario === "job") {
  const job = await umbra.submit({
    name: "chain",
    nodes: [
      { id: "a", handler: "stays" },
      { id: "b", handler: "act", dependencies: ["a"] },
    ],
  })
  await began
  await job.pause({ by: "ada", reason: "prices" })
  await print(`paused ${job.id}`)
  process.kill(process.pid, "SIGKILL")
} else if (scenario === "pausing") {
  await umbra.register({ name: "held", nodes: [{ id: "a", handler: "act" }] })
  const { registry } = journal
  const pauseWorkflow = registry.pauseWorkflow.bind(registry)
  registry.pauseWorkflow = async given => {
    if (moment === "before") process.kill(process.pid, "SIGKILL")
    const stored = pauseWorkflow(given)
    if (moment === "during") process.kill(process.pid, "SIGKILL")
    await stored
    process.kill(process.pid, "SIGKILL")
    return stored
  }
  const submit = async () => print(`before ${(await umbra.submit("held")).id}`)
  for (let n = 0; n < Number(count); n++) await submit()
  for (let n = 0; n < Number(count); n++) void submit()
  await umbra.pauseWorkflow("held", { by: "ada", reason: "prices" })
  process.exit(1)
} else {
  await umbra.register({ name: "held", nodes: [{ id: "a", handler: "act" }] })
  await umbra.pauseWorkflow("held", { by: "ada" })
  const jobs = await Promise.all(Array.from({ length: Number(count) }, () => umbra.submit("held")))
  for (const { id } of jobs) await print(`held ${id}`)
  // Paused for itself: the end of the workflow's pause does not concern it.
  await jobs[0]!.pause({ by: "bob" })
  await print(`own ${jobs[0]!.id}`)
  appends = 0
  await umbra.resumeWorkflow("held")
  await Promise.all(jobs.slice(1).map(job => job.wait()))
  // It should have died before.
  process.exit(1)
}

/** Resolves when the line is written: this process may die at any moment. */
function print(line: string): Promise<void> {
  return new Promise(resolve => process.stdout.write(`${line}\n`, () => resolve()))
}
