/**
 * pg-boss: batches, LISTEN/NOTIFY and fetching again at once after a full batch, as its page on workers describes. Its
 * flows are unblocked by a background pass every few seconds, so a step sends the next one itself, in the transaction
 * that completes it (`transactional`); results that a join needs go to a table of ours in the same transaction.
 */
import { PgBoss } from "pg-boss"
import { add, CHAIN, FAN, item, join, numbers } from "./steps.js"
import { Waiting } from "./waiting.js"

export const packages = ["pg-boss"]

const QUEUES = ["single", "steps"]
const batches = { batchSize: 250, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }

export async function open({ postgresUrl, width }) {
  const waiting = new Waiting()
  const boss = new PgBoss({ connectionString: postgresUrl, useListenNotify: true, max: 20 })
  boss.on("error", error => {
    throw error
  })
  await boss.start()
  const query = async (text, values, db = boss.getDb()) => (await db.executeSql(text, values)).rows
  await query("create table values_of_items (job int, k int, value bigint, primary key (job, k))", [])
  await query("create table items_left (job int primary key, items int not null)", [])
  for (const name of QUEUES) await boss.createQueue(name, { notify: true })
  await boss.work("single", { ...batches, localConcurrency: 2, perJobResults: true }, async jobs => {
    const results = jobs.map(({ id, data }) => ({ id, status: "completed", output: add(data.x) }))
    for (const [i, { data }] of jobs.entries()) waiting.end(data.job, results[i].output)
    return results
  })
  await boss.work("steps", { ...batches, localConcurrency: 4, transactional: true }, async (jobs, tx) => {
    const ended = await runSteps(jobs, (text, values) => query(text, values, tx), tx)
    for (const { job, value } of ended) waiting.end(job, value)
  })

  /** A batch of steps of any kind: one statement for the values, one for the counts, one for the next steps. */
  async function runSteps(jobs, execute, tx) {
    const [next, values, ended] = [[], [], []]
    for (const { data } of jobs) {
      const { kind, job, x, left } = data
      if (kind === "item") values.push({ job, k: data.k, value: item(x, data.k) })
      else if (kind === "join") ended.push({ job, value: join(await valuesOf(job, execute)) })
      else {
        const value = add(x)
        if (kind === "first") next.push(...(await fanOut(job, value, FAN, execute)))
        else if (left > 1) next.push({ kind, job, x: value, left: left - 1 })
        else ended.push({ job, value })
      }
    }
    if (values.length > 0) next.push(...(await joinsAfter(values, execute)))
    if (next.length > 0)
      await boss.insert(
        "steps",
        next.map(data => ({ data })),
        { db: tx },
      )
    return ended
  }

  const start = {
    single: (job, x) => boss.send("single", { job, x }),
    chain: (job, x) => boss.send("steps", { kind: "chain", job, x, left: CHAIN }),
    fan: (job, x) => boss.send("steps", { kind: "first", job, x }),
    async wide(job, x) {
      const items = await fanOut(job, x, width, query)
      await boss.insert(
        "steps",
        items.map(data => ({ data })),
      )
    },
  }
  return {
    configuration:
      "insert() for bulks, LISTEN/NOTIFY, batches of 250 with burstWhenBatchFull, 2 workers for single jobs and 4 transactional workers for steps, pool of 20",
    async run(shape, x) {
      const end = waiting.for(x)
      await start[shape](x, x)
      return end
    },
    runAll(xs) {
      const results = Promise.all(xs.map(x => waiting.for(x)))
      return {
        accepted: boss.insert(
          "single",
          xs.map(x => ({ data: { job: x, x } })),
        ),
        results,
      }
    },
    async recorded() {
      const [{ steps }] = await query(
        "select count(*)::int as steps from pgboss.job where state = 'completed' and name = any ($1)",
        [QUEUES],
      )
      return { steps }
    },
    close: () => boss.stop({ graceful: false }),
  }
}

async function fanOut(job, x, width, execute) {
  await execute("insert into items_left values ($1, $2)", [job, width])
  return numbers(width).map(k => ({ kind: "item", job, x, k }))
}

/** The row locks order the transactions that count down the same job: exactly one of them reaches zero. */
async function joinsAfter(values, execute) {
  const column = name => values.map(value => value[name])
  await execute("insert into values_of_items select * from unnest ($1::int[], $2::int[], $3::bigint[])", [
    column("job"),
    column("k"),
    column("value"),
  ])
  const rows = await execute(
    `with done as (select job, count(*) as items from unnest ($1::int[]) as job group by job order by job),
      locked as (select job from items_left where job in (select job from done) order by job for update)
      update items_left set items = items_left.items - done.items from done join locked using (job)
      where items_left.job = done.job returning items_left.job, items_left.items`,
    [column("job")],
  )
  return rows.filter(({ items }) => items === 0).map(({ job }) => ({ kind: "join", job }))
}

async function valuesOf(job, execute) {
  const rows = await execute("select value::int from values_of_items where job = $1", [job])
  return rows.map(({ value }) => value)
}
