/**
 * Prints the source files, and the number of their lines, that run between a message that is ready in the queue of its route
 * and the commit that acknowledges it. Arguments: the folder of the compiled sources, the folder of the store.
 */
import { measureWalks } from "./walk-coverage.js"

const [, , sources, store] = process.argv
const walks = measureWalks(sources)
const { GroupCommit } = await walks.load("pipeline/commit/group-commit.js")
const { RouteQueue } = await walks.load("pipeline/execution/route-queue.js")
const { defineAdapter, openUmbra } = await walks.load("index.js")

/** The route `work` is the second one. */
const WORK = 1
let isMeasured = false
const { arrived } = RouteQueue.prototype
RouteQueue.prototype.arrived = function (messages, ...rest) {
  arrived.call(this, messages, ...rest)
  if (isMeasured && messages.some(({ route }) => route === WORK)) walks.begin()
}
const { collect } = GroupCommit.prototype
GroupCommit.prototype.collect = function () {
  const commit = collect.call(this)
  if (isMeasured && commit?.lineage.some(({ route }) => route === WORK)) walks.end()
  return commit
}

const step = defineAdapter({ type: "step", process: ({ body }) => ({ ...body, seen: true }) })
const umbra = await openUmbra(store, { adapters: [step] })
const pipeline = count => ({
  name: "walk",
  init: { body: Array.from({ length: count }, (_, n) => ({ n })) },
  routes: [
    { name: "items", inbound: "lists", adapters: [{ type: "split" }], outbound: "work" },
    { name: "work", inbound: "work", adapters: [{ type: "step" }, { type: "step" }], outbound: "done" },
    { name: "end", inbound: "done", adapters: [{ type: "step" }] },
  ],
})
await (await umbra.submit(pipeline(1000))).wait()
isMeasured = true
for (let i = 0; i < 12; i++) await (await umbra.submit(pipeline(1))).wait()
await umbra.close()
walks.print()
