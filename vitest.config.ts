import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

/**
 * Files that have a process of their own: they take long, replace a module, set what is global in a process, or measure what
 * theirs uses. All others share worker processes and the modules loaded there, since many take less time than to start a
 * process and load Umbra: their tests close what they open, and change nothing that a later file can see.
 */
const OWN = [
  "test/@(chaos|crash|simulation|trace|witness)/**/*.test.ts",
  "test/artifacts/flat-memory.test.ts",
  "test/artifacts/large.test.ts",
  "test/core/scale.test.ts",
  "test/definition/input-checks.test.ts",
  "test/journal/network-file-system.test.ts",
  "test/pipeline/adapters/file-sources.test.ts",
  "test/server/logs.test.ts",
]

/** Files that share processes among themselves, and in each of these one Chromium. */
const UI = ["test/ui/**/*.test.ts"]

/** Only in `npm run test:ui`: together with the other tests in Chromium they take longer than two minutes. */
const LONG_UI = process.env.UMBRA_TEST_UI === "all" ? [] : ["test/ui/long/**"]

/** Files that share processes and take half a minute, most of it waiting. Begun last, one of them would run on alone when all else is done. */
const LONG = new RegExp(
  "/test/(artifacts/(contract|s3-faults)|broker/redis-away|cli/(jobs|remote)|definition/fuzz|docs/pages|pipeline/processes|" +
    "provider/fleet|server/(abuse-readings|abuse-stretches|roles))\\.test",
)

/**
 * Files with a process of their own first, then those in Chromium: vitest keeps a shared process only while the next file is of
 * its kind. Of the others every third is a long one, as long as there are any, so that others compute while these wait; the
 * rest are many and short, so that the workers end together.
 */
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const groupOf = ({ moduleId, project }: TestSpecification) =>
      project.config.isolate ? "own" : project.name === "ui" ? "ui" : LONG.test(moduleId) ? "long" : "short"
    const sorted = (group: string) => super.sort(files.filter(file => groupOf(file) === group))
    const [own, ui, long, short] = await Promise.all(["own", "ui", "long", "short"].map(sorted))
    const mixed = long!.flatMap((file, index) => [file, ...short!.slice(2 * index, 2 * index + 2)])
    return [...own!, ...ui!, ...mixed, ...short!.slice(2 * long!.length)]
  }
}

/** `npm test` has built the package just before: see test/support/built-threads.ts. */
const BUILT_THREADS = {
  find: /^(\.\.\/)+thread\.ts$/,
  replacement: fileURLToPath(new URL("test/support/built-threads.ts", import.meta.url)),
}

export default defineConfig({
  resolve: { alias: process.env.UMBRA_TEST_BUILT === "yes" ? [BUILT_THREADS] : [] },
  test: {
    pool: "forks",
    // Keeps transformed modules in node_modules, by their content: all projects, later runs and Node.js 24 use them.
    experimental: { fsModuleCache: true },
    setupFiles: process.env.UMBRA_TEST_COSTS === undefined ? [] : ["test/support/costs.ts"],
    sequence: { sequencer: LongFirst },
    // Three times as many as a small machine has processors: many tests wait for processes, timers and the disk.
    maxWorkers: 6,
    // For tests that hang. On a busy machine a process takes twenty seconds to start, and a test starts many.
    testTimeout: 900_000,
    hookTimeout: 900_000,
    // A poll without a limit of its own proves no time.
    expect: { poll: { timeout: 180_000 } },
    projects: [
      {
        extends: true,
        test: { name: "shared", include: ["test/**/*.test.ts"], exclude: [...OWN, ...UI], isolate: false },
      },
      { extends: true, test: { name: "ui", include: UI, exclude: LONG_UI, isolate: false } },
      { extends: true, test: { name: "own", include: OWN } },
    ],
  },
})
