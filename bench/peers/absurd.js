/**
 * absurd: tasks of steps, claimed in batches. Its SDK is on npm, its schema is not: the file `absurd.sql` of the same release is
 * named by ABSURD_SQL, and without it this peer cannot run.
 */
import { readFile } from "node:fs/promises"
import { resolve } from "node:path"
import { Absurd } from "absurd-sdk"
import pg from "pg"
import { add, CHAIN, FAN, item, join, numbers } from "./steps.js"
import { Waiting } from "./waiting.js"

export const packages = ["absurd-sdk"]

const WORKER = { concurrency: 100, batchSize: 100, pollInterval: 0.01, claimTimeout: 600 }
const POOL = 20

async function fanOf(ctx, x, width) {
  const values = await Promise.all(numbers(width).map(k => ctx.step(`item ${k}`, async () => item(x, k))))
  return ctx.step("join", async () => join(values))
}

const tasks = {
  single: (ctx, x) => ctx.step("add", async () => add(x)),
  async chain(ctx, x) {
    let value = x
    for (let k = 0; k < CHAIN; k++) {
      const before = value
      value = await ctx.step(`add ${k}`, async () => add(before))
    }
    return value
  },
  fan: async (ctx, x) => fanOf(ctx, await ctx.step("first", async () => add(x)), FAN),
}

export async function open({ postgresUrl, width }) {
  const file = process.env.ABSURD_SQL
  if (file === undefined)
    throw new Error("its schema is not on npm: set ABSURD_SQL to the absurd.sql of the SDK's release")
  const pool = new pg.Pool({ connectionString: postgresUrl, max: POOL })
  // npm changes the folder, and keeps where it was called.
  await pool.query(await readFile(resolve(process.env.INIT_CWD ?? "", file), "utf8"))
  const waiting = new Waiting()
  const app = new Absurd({ db: pool, queueName: "bench", log: quiet })
  await app.createQueue("bench")
  for (const [name, run] of Object.entries({ ...tasks, wide: (ctx, x) => fanOf(ctx, x, width) }))
    app.registerTask({ name, defaultMaxAttempts: 1 }, async ({ x }, ctx) => {
      const value = await run(ctx, x)
      waiting.end(x, value)
      return value
    })
  const fail = error => setImmediate(() => Promise.reject(error))
  const worker = await app.startWorker({ ...WORKER, onError: fail })
  return {
    configuration: `worker concurrency ${WORKER.concurrency}, batches of ${WORKER.batchSize}, poll interval ${WORKER.pollInterval} s, pool of ${POOL}`,
    async run(shape, x) {
      const end = waiting.for(x)
      await app.spawn(shape, { x })
      return end
    },
    runAll(xs) {
      const results = Promise.all(xs.map(x => waiting.for(x)))
      return { accepted: Promise.all(xs.map(x => app.spawn("single", { x }))), results }
    },
    async recorded() {
      const { rows } = await pool.query(
        `select (select count(*)::int from absurd.c_bench) as steps,
          (select count(*)::int from absurd.t_bench where state <> 'completed') as unfinished`,
      )
      return rows[0].unfinished === 0 ? { steps: rows[0].steps } : { unfinished: rows[0].unfinished }
    },
    async close() {
      await worker.close()
      await pool.end()
    },
  }
}

const nothing = () => {}
const quiet = { log: nothing, info: nothing, warn: nothing, error: nothing }
