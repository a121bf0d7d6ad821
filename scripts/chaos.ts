/**
 * `npm run chaos -- --minutes 10 --jobs 20000 --seed 7` runs a fleet of real processes (3 engines, 6 workers,
 * 2 API processes, private PostgreSQL and Redis) while they are killed, stopped and restarted, and the
 * network between them fails; then it checks that nothing was lost, nothing is stuck, and nothing completed
 * ran again. Exit 0: no violation; 1: violations, each on a line. The seed repeats the plan of a run.
 */
import { parseArgs } from "node:util"
import { type ChaosReport, chaos } from "../test/chaos/campaign.ts"
import { main } from "./interruption.ts"
import { show } from "./services/run.ts"

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    jobs: { type: "string", default: "20000" },
    every: { type: "string", default: "2" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 32)) },
    verbose: { type: "boolean", default: false },
  },
})

await main(async signal => {
  const [minutes, jobs, every, seed] = [amount("minutes"), amount("jobs"), amount("every"), amount("seed")]
  if ((await show("npm", ["run", "--silent", "build"], { signal })) !== 0)
    throw new Error("the build failed, so nothing was run")
  console.log(`${jobs} jobs, ${minutes} minutes, a fault every ${every} s, seed ${seed}`)
  const report = await chaos({
    ...{ seed, jobs, seconds: minutes * 60, everySeconds: every },
    ...(values.verbose ? { print: (line: string) => console.log(`  ${line}`) } : {}),
  })
  print(report)
  return report.violations.length === 0 ? 0 : 1
})

function print(report: ChaosReport): void {
  const { jobs, children, executions, repeated, faults, requestsRepeated, lastEndSeconds, violations } =
    report
  const { references, swept, lines, lostLines } = report.kept
  const count = [...faults.values()].reduce((sum, times) => sum + times, 0)
  console.log(`  ${count} faults: ${[...faults].map(([what, times]) => `${what} ${times}`).join(", ")}`)
  console.log(`  ${jobs} jobs and ${children} children, ${requestsRepeated} requests repeated by clients`)
  console.log(`  ${executions} executions, ${repeated} of them again after a failure or a lost outcome`)
  console.log(`  ${references} artifacts, ${swept} others swept; ${lines} log lines, ${lostLines} lost`)
  console.log(`  the last job ended ${lastEndSeconds.toFixed(1)} s after the last fault`)
  for (const violation of violations.slice(0, 100)) console.log(`  VIOLATION ${violation}`)
  console.log(`  ${violations.length} violations`)
}

function amount(name: "minutes" | "jobs" | "every" | "seed"): number {
  const number = Number(values[name])
  if (Number.isFinite(number) && number >= 0) return number
  throw new Error(`--${name} ${values[name]}: write a number`)
}
