/** A process of its own: runs jobs, some of which fail and are retried, and dies at its nth write of statistics, before or after it. */
import { systemClock } from "../../src/engine/clock.ts"
import { openJournal } from "../../src/journal/open.ts"
import { openUmbra } from "../../src/umbra.ts"
import { fail } from "../../src/worker/fail.ts"
import { defineHandler } from "../../src/worker/handler.ts"

const [location = "", moment = "before", at = "1"] = process.argv.slice(2)
const failed = new Set<string>()
const act = defineHandler({
  name: "act",
  run: (_config, { jobId }) => {
    if (failed.has(jobId)) return 1
    failed.add(jobId)
    fail("only once", { retryable: false })
  },
})
const journal = await openJournal(location)
let writes = 0
const { statistics } = journal
const write = statistics.write.bind(statistics)
statistics.write = async given => {
  const isLast = ++writes === Number(at)
  if (isLast && moment === "before") process.kill(process.pid, "SIGKILL")
  const result = await write(given)
  if (isLast) process.kill(process.pid, "SIGKILL")
  return result
}
const after: typeof systemClock.after = (ms, fire) => systemClock.after(ms === 15_000 ? 20 : ms, fire)
const umbra = await openUmbra(journal, {
  ...{ handlers: [act], clock: { ...systemClock, after } },
  engine: { retentionSeconds: null, beatSeconds: 0.1 },
})
const workflow = { name: "counted", nodes: [{ id: "a", handler: "act" }] }
const run = async () => {
  for (;;) {
    const job = await umbra.submit(workflow, {})
    await job.wait()
    await umbra.retry(job.id)
    await job.wait()
  }
}
for (let lane = 0; lane < 5; lane++) void run()
