/**
 * `npm run external -- --jobs 5000 --processes 8 --kills 100 --limit 20 --webhooks 2 --faults --seed 7` runs
 * processes on one PostgreSQL that work for a fake provider, kills them at random, and checks with the
 * records of the provider and the journal: each job ended as its script says, each node completed once, never
 * more operations than slots, every repetition under the same key, all slots released. `--store sqlite`: one
 * process at a time on a folder. `--work 300`: operations take up to this many ms, so that all slots are in
 * use. Exit 0: no violation; 1: problems, each on a line. UMBRA_TEST_POSTGRES_URL: uses a running server.
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
    work: { type: "string", default: "30" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 32)) },
    faults: { type: "boolean", default: false },
    store: { type: "string", default: "postgres" },
    verbose: { type: "boolean", default: false },
  },
})

await main(async signal => {
  if ((await show("npm", ["run", "--silent", "build"], { signal })) !== 0)
    throw new Error("the build failed, so nothing was run")
  if (values.store === "sqlite") return run(null)
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

/** null: in a separate folder. */
async function run(location: string | null): Promise<number> {
  const processes = location === null ? 1 : count("processes")
  const counts = { jobs: count("jobs"), processes, kills: count("kills") }
  const seed = count("seed")
  console.log(`${counts.jobs} jobs, ${processes} processes, ${counts.kills} kills, seed ${seed}`)
  const verdict = await externalCampaign({
    ...counts,
    ...{ seed, location, limit: count("limit"), webhooks: count("webhooks"), faults: values.faults },
    workMs: count("work"),
    ...(values.verbose ? { print: (line: string) => console.log(`  ${line}`) } : {}),
  })
  const { operations, repeated, failed, webhooks, lies, mostAtOnce, seconds, problems } = verdict
  console.log(
    `  ${operations} operations, at most ${mostAtOnce} at once, ${repeated} submitted again under their key`,
  )
  console.log(
    `  ${webhooks} webhooks, ${lies} of them forged or wrong; ${failed} jobs whose operation failed at the provider`,
  )
  console.log(`  ${seconds.toFixed(1)} s, ${problems.length} problems`)
  for (const problem of problems.slice(0, 50)) console.log(`  ${problem}`)
  return problems.length === 0 ? 0 : 1
}

function count(name: "jobs" | "processes" | "kills" | "limit" | "webhooks" | "work" | "seed"): number {
  const number = Number(values[name])
  if (!Number.isInteger(number) || number < 0)
    throw new Error(`--${name} ${values[name]}: write a whole number`)
  return number
}
