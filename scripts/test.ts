/**
 * `npm test`: builds, starts the services, runs vitest with the given arguments (`npm test -- test/core`),
 * stops everything and prints the counts on the last line. The exit code is vitest's. With UMBRA_TEST_BUILT=yes the package
 * has been built from these sources just before; with UMBRA_TEST_COSTS=yes it prints what each file cost.
 */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { main } from "./interruption.ts"
import { startServices } from "./services/all.ts"
import { show } from "./services/run.ts"
import { costsTable, readCosts } from "./test/costs.ts"
import { readCounts, summary } from "./test/counts.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const vitest = join(root, "node_modules", "vitest", "vitest.mjs")

await main(async signal => {
  // Tests that start real processes use what users use: the built package.
  const isBuilt = process.env.UMBRA_TEST_BUILT === "yes"
  if (!isBuilt && (await show("npm", ["run", "--silent", "build"], { signal })) !== 0) {
    throw new Error("the build failed, so no test was run")
  }
  const services = await startServices(signal)
  const folder = await mkdtemp(join(tmpdir(), "umbra-test-"))
  const report = join(folder, "report.json")
  const costs = process.env.UMBRA_TEST_COSTS === "yes" ? join(folder, "costs") : null
  try {
    const code = await show(
      process.execPath,
      [vitest, "run", ...reporters(report), ...process.argv.slice(2)],
      {
        env: {
          ...process.env,
          ...services.env,
          UMBRA_TEST_BUILT: "yes",
          ...(costs === null ? {} : { UMBRA_TEST_COSTS: costs }),
        },
        signal,
      },
    )
    signal.throwIfAborted()
    if (costs !== null) console.log(costsTable(await readCosts(costs)))
    console.log(summary(await readCounts(report, code)))
    return code
  } finally {
    await services.stop()
    await rm(folder, { recursive: true, force: true })
  }
})

function reporters(report: string): readonly string[] {
  return ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`]
}
