/**
 * graphile-worker: the configuration with batching of its page on performance, `addJobs` for bulks. It knows neither
 * results nor dependencies: a task adds the next one, and a fan counts down in a table of ours.
 */
import { makeWorkerUtils, run as startRunner } from "graphile-worker"
import pg from "pg"
import { add, CHAIN, FAN, item, join, numbers } from "./steps.js"
import { Waiting } from "./waiting.js"

export const packages = ["graphile-worker"]

const worker = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
}

export async function open({ postgresUrl, width }) {
  const waiting = new Waiting()
  const pool = new pg.Pool({ connectionString: postgresUrl, max: worker.maxPoolSize })
  pool.on("error", () => {})
  pool.on("connect", client => client.on("error", () => {}))
  await pool.query("create table values_of_items (job int, k int, value bigint, primary key (job, k))")
  await pool.query("create table items_left (job int primary key, items int not null)")
  const utils = await makeWorkerUtils({ pgPool: pool })
  await utils.migrate()
  const fanOut = async (job, x, count) => {
    await pool.query("insert into items_left values ($1, $2)", [job, count])
    await utils.addJobs(
      numbers(count).map(k => ({ identifier: "item", payload: { job, x, k } })),
      false,
    )
  }
  const taskList = {
    async chain({ job, x, left }, helpers) {
      const value = add(x)
      if (left > 1) await helpers.addJob("chain", { job, x: value, left: left - 1 })
      else waiting.end(job, value)
    },
    first: ({ job, x }) => fanOut(job, add(x), FAN),
    async item({ job, x, k }, helpers) {
      const { rows } = await helpers.query(COUNT_DOWN, [job, k, item(x, k)])
      if (rows[0].items === 0) await helpers.addJob("join", { job })
    },
    async join({ job }, helpers) {
      const { rows } = await helpers.query("select value::int from values_of_items where job = $1", [job])
      waiting.end(job, join(rows.map(({ value }) => value)))
    },
  }
  const runner = await startRunner({
    pgPool: pool,
    taskList,
    crontab: "",
    preset: { worker },
    noHandleSignals: true,
  })
  const start = {
    single: (job, x) => utils.addJob("chain", { job, x, left: 1 }),
    chain: (job, x) => utils.addJob("chain", { job, x, left: CHAIN }),
    fan: (job, x) => utils.addJob("first", { job, x }),
    wide: (job, x) => fanOut(job, x, width),
  }
  return {
    configuration:
      "addJobs() for bulks, concurrentJobs 24, localQueue of 500, completeJobBatchDelay 0, failJobBatchDelay 0, pool of 25",
    async run(shape, x) {
      const end = waiting.for(x)
      await start[shape](x, x)
      return end
    },
    runAll(xs) {
      const results = Promise.all(xs.map(x => waiting.for(x)))
      const jobs = xs.map(x => ({ identifier: "chain", payload: { job: x, x, left: 1 } }))
      return { accepted: utils.addJobs(jobs, false), results }
    },
    async recorded() {
      const { rows } = await pool.query("select count(*)::int as left from graphile_worker.jobs")
      return rows[0]
    },
    async close() {
      await runner.stop()
      await utils.release()
      await pool.end()
    },
  }
}

/** The row lock orders the items of a job: exactly one of them reaches zero. */
const COUNT_DOWN = `
with stored as (insert into values_of_items values ($1, $2, $3))
update items_left set items = items - 1 where job = $1 returning items`
