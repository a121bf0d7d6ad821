/**
 * `npm run simulate -- --seeds 1000 [--from 1]`: simulates one fleet per seed (test/simulation); stops at the
 * first violation.
 */
import { parseArgs } from "node:util"
import { Fleet } from "../test/simulation/fleet.ts"

const { values } = parseArgs({
  options: { seeds: { type: "string", default: "1000" }, from: { type: "string", default: "1" } },
})
const [from, seeds] = [Number(values.from), Number(values.seeds)]
let executions = 0
for (let seed = from; seed < from + seeds; seed++) {
  const outcome = await new Fleet(seed, { isNested: seed % 2 === 0 }).run({ engines: 3, steps: 120 })
  executions += outcome.executions
  if (outcome.violations.length > 0) {
    console.error(`seed ${seed}:\n  ${outcome.violations.join("\n  ")}`)
    process.exit(1)
  }
}
console.log(`${seeds} fleets, ${executions.toLocaleString("en")} executions, no violation`)
