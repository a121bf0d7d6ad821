/**
 * `npm run external -- --jobs 10000 --processes 8 --kills 100 --limit 10 --webhooks 1 --faults --seed 7` lets processes
 * on one PostgreSQL work for a fake provider, kills them at random, and has the provider and the journal judge: each
 * node completed once, never more operations than slots, every repetition under the same key, all slots back.
 * Exit 0: nothing found; 1: problems, each on a line. UMBRA_TEST_POSTGRES_URL: a server that runs already.
 */
import { parseArgs } from "node:util"
import { externalCampaign } from "../test/provider/campaign/campaign.ts"
import { freshDatabase } from "../test/support/services.ts"
import { main } from "./interruption.ts"
import { startPostgres } from "./services/postgres.ts"
import { show } from "./services/run.ts"

const { values } = parseArgs({
  options: {
    jobs: { type: "string", default: "1000" },
    processes: { type: "string", default: "2" },
    kills: { type: "string", default: "0" },
    limit: { type: "string", default: "10" },
    webhooks: { type: "string", default: "2" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 32)) },
    faults: { type: "boolean", default: false },
    verbose: { type: "boolean", default: false },
  },
})

await main(async signal => {
  if ((await show("npm", ["run", "--silent", "build"], { signal })) !== 0)
    throw new Error("the build failed, so nothing was run")
  const postgres = process.env.UMBRA_TEST_POSTGRES_URL ? null : await startPostgres()
  if (postgres !== null) process.env.UMBRA_TEST_POSTGRES_URL = postgres.url
  const database = await freshDatabase()
  try {
    return await run(database.url)
  } finally {
    await database.drop()
    await postgres?.stop()
  }
})

async function run(location: string): Promise<number> {
  const figures = { jobs: count("jobs"), processes: count("processes"), kills: count("kills") }
  const seed = count("seed")
  const verdict = await externalCampaign({
    ...figures,
    ...{ seed, location, limit: count("limit"), webhooks: count("webhooks"), faults: values.faults },
    ...(values.verbose ? { tell: (line: string) => console.log(`  ${line}`) } : {}),
  })
  const { operations, repeated, mostAtOnce, seconds, problems } = verdict
  console.log(`${figures.jobs} jobs, ${figures.processes} processes, ${figures.kills} kills, seed ${seed}`)
  console.log(
    `  ${operations} operations, at most ${mostAtOnce} at once, ${repeated} submitted again under their key`,
  )
  console.log(`  ${seconds.toFixed(1)} s, ${problems.length} problems`)
  for (const problem of problems.slice(0, 50)) console.log(`  ${problem}`)
  return problems.length === 0 ? 0 : 1
}

function count(name: "jobs" | "processes" | "kills" | "limit" | "webhooks" | "seed"): number {
  const number = Number(values[name])
  if (!Number.isInteger(number) || number < 0)
    throw new Error(`--${name} ${values[name]}: write a whole number`)
  return number
}
