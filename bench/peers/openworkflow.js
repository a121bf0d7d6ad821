/** openworkflow: a worker with the concurrency of its own benchmark, steps side by side with `Promise.all`. */
import { OpenWorkflow } from "openworkflow"
import { BackendPostgres } from "openworkflow/postgres"
import pg from "pg"
import { add, CHAIN, FAN, item, join, numbers } from "./steps.js"
import { Waiting } from "./waiting.js"

export const packages = ["openworkflow", "postgres"]

const CONCURRENCY = 100

async function fanOf(step, x, width) {
  const values = await Promise.all(
    numbers(width).map(k => step.run({ name: `item-${k}` }, async () => item(x, k))),
  )
  return step.run({ name: "join" }, async () => join(values))
}

export async function open({ postgresUrl, width }) {
  const waiting = new Waiting()
  const backend = await BackendPostgres.connect(postgresUrl)
  const client = new OpenWorkflow({ backend })
  const functions = {
    single: (step, x) => step.run({ name: "add" }, async () => add(x)),
    async chain(step, x) {
      let value = x
      for (let k = 0; k < CHAIN; k++) {
        const before = value
        value = await step.run({ name: `add-${k}` }, async () => add(before))
      }
      return value
    },
    fan: async (step, x) => fanOf(step, await step.run({ name: "first" }, async () => add(x)), FAN),
    wide: (step, x) => fanOf(step, x, width),
  }
  const define = (name, run) =>
    client.defineWorkflow({ name, retryPolicy: { maximumAttempts: 1 } }, async ({ input, step }) => {
      const value = await run(step, input.x).catch(error => error)
      waiting.end(input.x, value)
      if (value instanceof Error) throw value
      return value
    })
  const workflows = Object.fromEntries(
    Object.entries(functions).map(([name, run]) => [name, define(name, run)]),
  )
  const worker = client.newWorker({ concurrency: CONCURRENCY })
  await worker.start()
  const pool = new pg.Pool({ connectionString: postgresUrl, max: 1 })
  const result = async promise => {
    const value = await promise
    if (value instanceof Error) throw value
    return value
  }
  return {
    configuration: `worker concurrency ${CONCURRENCY}, defaults otherwise`,
    async run(shape, x) {
      const end = waiting.for(x)
      await workflows[shape].run({ x })
      return result(end)
    },
    runAll(xs) {
      const results = Promise.all(xs.map(x => result(waiting.for(x))))
      return { accepted: Promise.all(xs.map(x => workflows.single.run({ x }))), results }
    },
    async recorded() {
      const { rows } = await pool.query(
        `select (select count(*)::int from openworkflow.step_attempts where status in ('completed', 'succeeded')) as steps,
          (select count(*)::int from openworkflow.workflow_runs where status not in ('completed', 'succeeded')) as unfinished`,
      )
      return rows[0].unfinished === 0 ? { steps: rows[0].steps } : { unfinished: rows[0].unfinished }
    },
    async close() {
      await worker.stop()
      await pool.end()
      await backend.stop()
    },
  }
}
