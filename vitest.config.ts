import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

/** Short files that take half a minute and more. Begun last, one of them would run on alone when all else is done. */
const LONG = /\/test\/(chaos|crash|simulation)\//

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const [long, others] = [true, false].map(isLong =>
      files.filter(({ moduleId }) => LONG.test(moduleId) === isLong),
    )
    return [...(await super.sort(long!)), ...(await super.sort(others!))]
  }
}

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Each file gets a process of its own: tests start threads, servers and child processes.
    pool: "forks",
    sequence: { sequencer: LongFirst },
    maxWorkers: 2,
    // For what hangs. A process that starts takes twenty seconds on a machine that is busy.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    // What is polled for has no promised time, unless the test says one. A second is too little on a busy machine.
    expect: { poll: { timeout: 60_000 } },
  },
})
