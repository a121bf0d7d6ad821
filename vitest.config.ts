import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

/**
 * Files that share worker processes and the modules loaded there: many take less time than to start a process and load
 * Umbra. Their tests close what they open, and change nothing that a later file can see. Not those that replace a module
 * or measure what their own process uses.
 */
const SHARED = "test/@(core|definition|engine|feed|template|worker)/**/!(input-checks|scale).test.ts"

/** Files that take half a minute. Begun last, one of them would run on alone when all else is done. */
const LONG = new RegExp(
  "/test/(chaos|crash|simulation|witness)/|/test/(broker/redis-away|cli/(jobs|remote)|definition/fuzz|docs/pages|" +
    "pipeline/processes|provider/fleet|server/(abuse-stretches|roles))\\.test",
)

/** Long files first. Those that share processes last: they are many and short, so that the workers end together. */
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const groupOf = ({ moduleId, project }: TestSpecification) =>
      LONG.test(moduleId) ? 0 : project.config.isolate ? 1 : 2
    const groups = [0, 1, 2].map(group => super.sort(files.filter(file => groupOf(file) === group)))
    return (await Promise.all(groups)).flat()
  }
}

export default defineConfig({
  test: {
    pool: "forks",
    sequence: { sequencer: LongFirst },
    // One more than a small machine has processors: many tests wait for processes, timers and the disk.
    maxWorkers: 3,
    // For what hangs. A process that starts takes twenty seconds on a machine that is busy.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    // What is polled for has no promised time, unless the test says one. A second is too little on a busy machine.
    expect: { poll: { timeout: 60_000 } },
    projects: [
      { extends: true, test: { name: "shared", include: [SHARED], isolate: false } },
      // Each file has a process of its own.
      { extends: true, test: { name: "own", include: ["test/**/*.test.ts"], exclude: [SHARED] } },
    ],
  },
})
