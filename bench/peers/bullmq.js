/**
 * BullMQ: dependencies are flows (a parent runs after its children), bulks are `addBulk`, completed jobs are removed,
 * as https://docs.bullmq.io advises for production. The worker reports completions in this process.
 */
import { FlowProducer, Queue, Worker } from "bullmq"
import { add, CHAIN, FAN, item, join, numbers } from "./steps.js"
import { Waiting } from "./waiting.js"

export const packages = ["bullmq"]

const QUEUE = "steps"
const kept = { removeOnComplete: true, removeOnFail: false, attempts: 3 }

export async function open({ redisUrl, width, fsync }) {
  const { hostname: host, port } = new URL(redisUrl)
  const connection = { host, port: Number(port), maxRetriesPerRequest: null }
  const waiting = new Waiting()
  const queue = new Queue(QUEUE, { connection })
  const flows = new FlowProducer({ connection })
  const childValues = async job => Object.values(await job.getChildrenValues())
  const steps = {
    single: async ({ data }) => add(data.x),
    chain: async job => add(job.data.x ?? (await childValues(job))[0]),
    /** No job of a flow has several parents: the first step adds the flow of the others. */
    first: async ({ data }) => {
      await flows.add(fanOf(data.id, add(data.x), FAN))
      return undefined
    },
    item: async ({ data }) => item(data.x, data.k),
    join: async job => join(await childValues(job)),
  }
  const worker = new Worker(QUEUE, job => steps[job.name](job), { connection, concurrency: 200 })
  worker.on("completed", ({ data }, value) => {
    if (data.isLast) waiting.end(data.id, value)
  })
  worker.on("failed", (_, error) => {
    throw error
  })
  await Promise.all([queue, flows, worker].map(part => part.waitUntilReady()))
  const start = {
    single: (id, x) => queue.add("single", { id, x, isLast: true }, kept),
    chain: (id, x) => flows.add(chainOf(id, x)),
    fan: (id, x) => queue.add("first", { id, x }, kept),
    wide: (id, x) => flows.add(fanOf(id, x, width)),
  }
  return {
    configuration: `worker concurrency 200, removeOnComplete, flows, addBulk; Redis appendonly yes, appendfsync ${fsync}`,
    async run(shape, x) {
      const end = waiting.for(x)
      await start[shape](x, x)
      return end
    },
    runAll(xs) {
      const results = Promise.all(xs.map(x => waiting.for(x)))
      const accepted = queue.addBulk(
        xs.map(x => ({ name: "single", data: { id: x, x, isLast: true }, opts: kept })),
      )
      return { accepted, results }
    },
    async recorded() {
      const counts = await queue.getJobCounts("wait", "active", "waiting-children", "failed", "delayed")
      return { left: Object.values(counts).reduce((sum, count) => sum + count, 0) }
    },
    async close() {
      await worker.close()
      await Promise.all([queue.close(), flows.close()])
    },
  }
}

const job = (name, data, children) => ({ name, queueName: QUEUE, data, opts: kept, children })

function chainOf(id, x) {
  let tree = job("chain", { x })
  for (let k = 1; k < CHAIN; k++) tree = job("chain", { id, isLast: k === CHAIN - 1 }, [tree])
  return tree
}

const fanOf = (id, x, width) =>
  job(
    "join",
    { id, isLast: true },
    numbers(width).map(k => job("item", { x, k })),
  )
