/**
 * `npm run crash -- --kills 200 --jobs 2000 --seed 7 --store sqlite|postgres|both` kills processes that run
 * jobs, at every failpoint and at random times, and then checks that nothing was lost and nothing completed
 * ran again. With `--pipelines` the jobs are executions of pipelines, the kills happen at any time, and every
 * message is accounted for. Exit 0: no violation; 1: violations, each on a line. The seed repeats the plan of
 * a run.
 */
import { parseArgs } from "node:util"
import { type CampaignOptions, campaign, type Report } from "../test/crash/campaign.ts"
import { type PipelineReport, pipelineCampaign } from "../test/crash/pipelines/campaign.ts"
import { main } from "./interruption.ts"
import { startPostgres } from "./services/postgres.ts"
import { show } from "./services/run.ts"

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "200" },
    jobs: { type: "string" },
    pipelines: { type: "boolean", default: false },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 32)) },
    store: { type: "string", default: "both" },
    verbose: { type: "boolean", default: false },
  },
})

type Run = Omit<CampaignOptions, "location">

const places = [
  ["sqlite", onSqlite],
  ["postgres", onPostgres],
] as const

await main(async signal => {
  const run: Run = {
    kills: wholeNumber("kills"),
    jobs: wholeNumber("jobs", values.pipelines ? 200 : 2000),
    seed: wholeNumber("seed"),
    ...(values.verbose ? { print: (line: string) => console.log(`  ${line}`) } : {}),
  }
  if (!["sqlite", "postgres", "both"].includes(values.store))
    throw new Error(`--store ${values.store}: write sqlite, postgres or both`)
  if ((await show("npm", ["run", "--silent", "build"], { signal })) !== 0)
    throw new Error("the build failed, so nothing was run")
  let violations = 0
  for (const [name, at] of places)
    if (values.store === name || values.store === "both") violations += await at(run)
  return violations === 0 ? 0 : 1
})

async function onSqlite(run: Run): Promise<number> {
  return campaignAt("embedded database, 1 process", { ...run, location: null })
}

async function onPostgres(run: Run): Promise<number> {
  const postgres = await startPostgres({ settings: { track_commit_timestamp: "on" } })
  try {
    const processes = values.pipelines ? 3 : 2
    return await campaignAt(`PostgreSQL, ${processes} processes`, {
      ...run,
      location: postgres.url,
      processes,
    })
  } finally {
    await postgres.stop()
  }
}

/** Returns the number of violations. */
async function campaignAt(store: string, options: CampaignOptions): Promise<number> {
  const report = values.pipelines ? await pipelineCampaign(options) : await campaign(options)
  const { jobs, deaths, violations } = report
  const kills = [...deaths.values()].reduce((sum, count) => sum + count, 0)
  console.log(`${store}: ${kills} kills over ${jobs} jobs, seed ${options.seed}`)
  console.log(`  killed ${[...deaths].map(([place, count]) => `${place} ${count}`).join(", ")}`)
  console.log(`  ${figuresOf(report)}`)
  for (const violation of violations) console.log(`  VIOLATION ${violation}`)
  console.log(`  ${violations.length} violations`)
  return violations.length
}

function figuresOf(report: Report | PipelineReport): string {
  const { repeated } = report
  if ("executions" in report) {
    const { references, swept, lines, lostLines, lostMs } = report.kept
    return (
      `${report.executions} executions, ${repeated} of them again after a failure or a lost outcome\n` +
      `  ${references} artifacts, ${swept} others swept; ${lines} log lines, ${lostLines} lost, ${lostMs} ms before a kill at most`
    )
  }
  const { messages, deadLetters, calls } = report
  return `${messages} messages, ${deadLetters} dead letters, ${calls} calls, ${repeated} of them again after a death`
}

function wholeNumber(name: "kills" | "jobs" | "seed", unlessTold?: number): number {
  const value = Number(values[name] ?? unlessTold)
  if (Number.isInteger(value) && value >= 0) return value
  throw new Error(`--${name} ${values[name]}: write a whole number`)
}
