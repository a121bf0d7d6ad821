/**
 * Prints the source files, and the number of their lines, that run from the moment at which the owner of a partition has
 * a webhook's message until the facts join the shared commit, for a job that is in memory. Arguments: the folder of the
 * compiled sources, the folder of the store.
 */
import { setTimeout as after } from "node:timers/promises"
import { measureWalks } from "./walk-coverage.js"

const [, , sources, store] = process.argv
const walks = measureWalks(sources)
const { JobLoader } = await walks.load("engine/recovery/loader.js")
const { AppendLane } = await walks.load("engine/commit/committer.js")
const { defineHandler, defineProvider, openUmbra } = await walks.load("index.js")

/** One job that is measured, after enough others that nothing is done for the first time. */
let measured = null
const { prefetch } = JobLoader.prototype
JobLoader.prototype.prefetch = function (ids) {
  if (ids.includes(measured)) walks.begin()
  return prefetch.call(this, ids)
}
const { record } = AppendLane.prototype
AppendLane.prototype.record = function (job, fact, ...rest) {
  // Not the start of the other node, which is recorded when it has run for a while.
  if (job.id === measured && fact.type === "node_completed") walks.end()
  return record.call(this, job, fact, ...rest)
}

let submitted = 0
const provider = defineProvider({
  name: "studio",
  submit: () => ({ externalId: `operation-${++submitted}` }),
  verify: () => true,
  webhook: ({ body }) => ({
    externalId: body.id,
    eventId: body.id,
    news: { status: "completed", output: {} },
  }),
})
let pass
const held = defineHandler({ name: "held", run: () => new Promise(resolve => (pass = () => resolve({}))) })
const umbra = await openUmbra(store, { providers: [provider], handlers: [held] })
const workflow = {
  name: "film",
  nodes: [
    { id: "film", handler: "external", provider: "studio" },
    { id: "other", handler: "held" },
  ],
}
for (let i = 0; i < 25; i++) {
  const job = await umbra.submit(workflow)
  while ((await job.graph()).waiting_for.length === 0) await after(5)
  if (i >= 20) {
    await after(200)
    measured = job.id
  }
  const body = Buffer.from(JSON.stringify({ id: `operation-${submitted}` }))
  await umbra.webhooks.receive("studio", { body, headers: {} })
  while ((await job.graph()).waiting_for.length > 0) await after(5)
  measured = null
  pass()
  await job.wait()
}
await umbra.close()
walks.print()
