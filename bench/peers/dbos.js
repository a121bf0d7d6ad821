/**
 * DBOS: workflows of steps in plain functions, started directly; for the bulk, enqueued. Steps side by side are promises, which its
 * page on workflows allows as long as they start in a fixed order.
 */
import { DBOS } from "@dbos-inc/dbos-sdk"
import pg from "pg"
import { add, CHAIN, FAN, item, join, numbers } from "./steps.js"
import { Waiting } from "./waiting.js"

export const packages = ["@dbos-inc/dbos-sdk"]

const POOL = 20
const QUEUE = { workerConcurrency: 500, minPollingIntervalMs: 100 }

const step = (name, compute) => DBOS.runStep(async () => compute(), { name })

async function fanOf(x, width) {
  const values = await Promise.all(numbers(width).map(k => step(`item ${k}`, () => item(x, k))))
  return step("join", () => join(values))
}

export async function open({ postgresUrl, width }) {
  const waiting = new Waiting()
  const workflows = {
    single: x => step("add", () => add(x)),
    async chain(x) {
      let value = x
      for (let k = 0; k < CHAIN; k++) {
        const before = value
        value = await step(`add ${k}`, () => add(before))
      }
      return value
    },
    fan: async x => fanOf(await step("first", () => add(x)), FAN),
    wide: x => fanOf(x, width),
    async queued(x) {
      const value = await step("add", () => add(x))
      waiting.end(x, value)
      return value
    },
  }
  const registered = Object.fromEntries(
    Object.entries(workflows).map(([name, run]) => [name, DBOS.registerWorkflow(run, { name })]),
  )
  DBOS.setConfig({
    name: "bench",
    systemDatabaseUrl: postgresUrl,
    systemDatabasePoolSize: POOL,
    logLevel: "error",
  })
  await DBOS.launch()
  await DBOS.registerQueue("bulk", QUEUE)
  const pool = new pg.Pool({ connectionString: postgresUrl, max: 1 })
  return {
    configuration: `pool of ${POOL}; bulk: a queue with workerConcurrency ${QUEUE.workerConcurrency}, minPollingIntervalMs ${QUEUE.minPollingIntervalMs}`,
    async run(shape, x) {
      const handle = await DBOS.startWorkflow(registered[shape])(x)
      return handle.getResult()
    },
    runAll(xs) {
      const results = Promise.all(xs.map(x => waiting.for(x)))
      const enqueue = DBOS.startWorkflow(registered.queued, { queueName: "bulk" })
      return { accepted: Promise.all(xs.map(x => enqueue(x))), results }
    },
    async recorded() {
      const { rows } = await pool.query(
        `select (select count(*)::int from dbos.operation_outputs) as steps,
          (select count(*)::int from dbos.workflow_status where status <> 'SUCCESS') as unfinished`,
      )
      return rows[0].unfinished === 0 ? { steps: rows[0].steps } : { unfinished: rows[0].unfinished }
    },
    async close() {
      await pool.end()
      await DBOS.shutdown()
    },
  }
}
