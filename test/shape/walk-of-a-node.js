/**
 * Prints the source files, and the number of their lines, that run between a worker's report that a node completed and the
 * dispatch of the next node. Arguments: the folder of the compiled sources, the folder of the store.
 */
import { pathToFileURL } from "node:url"
import { Coverage } from "./coverage.js"

const [, , sources, store] = process.argv
const dist = pathToFileURL(`${sources}/`).href
const { LocalBroker } = await import(`${dist}broker/local.js`)
const { TaskReports } = await import(`${dist}engine/owner/reports.js`)
const { defineHandler, openUmbra } = await import(`${dist}index.js`)
const coverage = new Coverage(sources)

/** One job that is measured, after enough others that nothing is done for the first time. */
let measured = null
const { finished } = TaskReports.prototype
TaskReports.prototype.finished = function (task, ...rest) {
  if (task.jobId === measured && task.nodeId === "a") coverage.begin()
  return finished.call(this, task, ...rest)
}
const { dispatch } = LocalBroker.prototype
LocalBroker.prototype.dispatch = function (task) {
  if (task.jobId === measured && task.nodeId === "b") coverage.end()
  return dispatch.call(this, task)
}

let pass
const step = defineHandler({ name: "step", run: () => ({ x: 1 }) })
const held = defineHandler({
  name: "held",
  run: () => new Promise(resolve => (pass = () => resolve({ x: 1 }))),
})
const umbra = await openUmbra(store, { handlers: [step, held] })
const workflow = handler => ({
  name: handler,
  nodes: [
    { id: "a", handler },
    { id: "b", handler: "step", config: { value: "{{ a.x }}" }, dependencies: ["a"] },
  ],
})
for (let i = 0; i < 120; i++) await (await umbra.submit(workflow("step"))).wait()
for (let i = 0; i < 12; i++) {
  const job = await umbra.submit(workflow("held"))
  const ended = job.wait()
  await new Promise(resolve => setTimeout(resolve, 200))
  measured = job.id
  pass()
  await ended
}
await umbra.close()
coverage.print()
