/**
 * `npm run test:node24`: the contract of the embedded database on Node.js 24, with its own SQLite
 * (`node:sqlite`); `npm test` runs it on the installed Node.js. The program is downloaded from the npm
 * registry, at a pinned version, and removed again. Threads run the built package: with UMBRA_TEST_BUILT=yes it has been built
 * from these sources just before.
 */
import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const VERSION = "24.21.0"
const TESTS = [
  "test/journal/sqlite.test.ts",
  "test/journal/sqlite-file.test.ts",
  "test/journal/sqlite-stores.test.ts",
  "test/journal/memory.test.ts",
]

const root = fileURLToPath(new URL("..", import.meta.url))
const platform = `node-${process.platform}-${process.arch}`
const folder = mkdtempSync(join(tmpdir(), "umbra-node24-"))
// Costs are those of `npm test`, which names the file for them.
const { UMBRA_TEST_COSTS: _, ...inherited } = process.env
const env = { ...inherited, UMBRA_TEST_BUILT: "yes" }
const run = (program: string, parameters: readonly string[]) =>
  execFileSync(program, parameters, { cwd: root, env, stdio: "inherit" })
try {
  if (process.env.UMBRA_TEST_BUILT !== "yes") run("npm", ["run", "--silent", "build"])
  run("npm", ["install", "--ignore-scripts", "--no-save", "--prefix", folder, `${platform}@${VERSION}`])
  const node = join(folder, "node_modules", platform, "bin", "node")
  const checked = 'process.exit(process.getBuiltinModule("node:sqlite") ? 0 : 1)'
  run(node, ["--no-warnings", "-e", checked])
  run(node, [join(root, "node_modules/vitest/vitest.mjs"), "run", ...TESTS])
} finally {
  rmSync(folder, { recursive: true, force: true })
}
