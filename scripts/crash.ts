/**
 * `npm run crash -- --kills 200 --jobs 2000 --seed 7 --store pglite|postgres|both` kills processes that run jobs, at
 * every failpoint and at random times, and then checks that nothing was lost and nothing completed ran again.
 * Exit 0: nothing found; 1: violations, each on a line; the seed repeats the plan of a run.
 */
import { parseArgs } from "node:util"
import { type CampaignOptions, campaign, type Report } from "../test/crash/campaign.ts"
import { main } from "./interruption.ts"
import { startPostgres } from "./services/postgres.ts"
import { show } from "./services/run.ts"

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "200" },
    jobs: { type: "string", default: "2000" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 32)) },
    store: { type: "string", default: "both" },
    verbose: { type: "boolean", default: false },
  },
})

type Run = Omit<CampaignOptions, "location">

await main(async signal => {
  const run: Run = {
    kills: wholeNumber("kills"),
    jobs: wholeNumber("jobs"),
    seed: wholeNumber("seed"),
    ...(values.verbose ? { tell: (line: string) => console.log(`  ${line}`) } : {}),
  }
  if (!["pglite", "postgres", "both"].includes(values.store))
    throw new Error(`--store ${values.store}: write pglite, postgres or both`)
  if ((await show("npm", ["run", "--silent", "build"], { signal })) !== 0)
    throw new Error("the build failed, so nothing was run")
  let violations = 0
  if (values.store !== "postgres")
    violations += print("embedded database, 1 process", run, await onPglite(run))
  if (values.store !== "pglite") violations += print("PostgreSQL, 2 processes", run, await onPostgres(run))
  return violations === 0 ? 0 : 1
})

function onPglite(run: Run): Promise<Report> {
  return campaign({ ...run, location: null })
}

async function onPostgres(run: Run): Promise<Report> {
  const postgres = await startPostgres()
  try {
    return await campaign({ ...run, location: postgres.url, processes: 2 })
  } finally {
    await postgres.stop()
  }
}

/** Answers the number of violations. */
function print(store: string, { seed }: Run, report: Report): number {
  const { jobs, executions, repeated, deaths, violations } = report
  const kills = [...deaths.values()].reduce((sum, count) => sum + count, 0)
  console.log(`${store}: ${kills} kills over ${jobs} jobs, seed ${seed}`)
  console.log(`  killed ${[...deaths].map(([place, count]) => `${place} ${count}`).join(", ")}`)
  console.log(`  ${executions} executions, ${repeated} of them again after a failure or a lost outcome`)
  for (const violation of violations) console.log(`  VIOLATION ${violation}`)
  console.log(`  ${violations.length} violations`)
  return violations.length
}

function wholeNumber(name: "kills" | "jobs" | "seed"): number {
  const value = Number(values[name])
  if (Number.isInteger(value) && value >= 0) return value
  throw new Error(`--${name} ${values[name]}: write a whole number`)
}
