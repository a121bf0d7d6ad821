/**
 * One vitest in a process of its own, which keeps the transformed modules from run to run. A run gets a fresh worker process
 * with the environment that the request names, and runs the files one after another until a test fails.
 */
import { createVitest, type TestModule, type TestSpecification } from "vitest/node"

export interface LaneRequest {
  readonly files: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

export interface LaneReply {
  /** The first failed test, or null. */
  readonly failure: { readonly file: string; readonly test: string } | null
  /** Milliseconds of the tests of each file that ran, without its imports: the files of a run share them. */
  readonly durations: Readonly<Record<string, number>>
}

/** In the order of the request. */
class AsGiven {
  static order: readonly string[] = []

  async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => AsGiven.order.indexOf(moduleId)
    return files.sort((a, b) => place(a) - place(b))
  }

  async shard(files: TestSpecification[]): Promise<TestSpecification[]> {
    return files
  }
}

/** The test files of this run that have ended: vitest itself also remembers those of earlier runs. */
let ended: TestModule[] = []

const [root, mode] = process.argv.slice(2) as [string, "hits" | "mutants"]

const vitest = await createVitest("test", {
  root,
  config: false,
  watch: false,
  include: ["test/**/*.test.ts"],
  pool: "forks",
  maxWorkers: 1,
  // Which switches a file reaches is noted per process.
  isolate: mode === "hits",
  bail: mode === "hits" ? 0 : 1,
  setupFiles: mode === "hits" ? ["scripts/mutate/note-hits.ts"] : [],
  reporters: [{ onTestModuleEnd: module => void ended.push(module) }],
  silent: true,
  sequence: { sequencer: AsGiven },
  testTimeout: 240_000,
  hookTimeout: 240_000,
  expect: { poll: { timeout: 60_000 } },
})

process.on("message", async (request: LaneRequest) => {
  Object.assign(process.env, request.env)
  process.send!(await run(request.files))
})
process.on("disconnect", () => process.exit())
process.send!("ready")

async function run(files: readonly string[]): Promise<LaneReply> {
  AsGiven.order = files.map(file => `${root}/${file}`)
  const project = vitest.getRootProject()
  const specifications = AsGiven.order.map(path => project.createSpecification(path))
  ended = []
  const { unhandledErrors } = await vitest.runTestSpecifications(specifications)
  const durations: Record<string, number> = {}
  for (const module of ended) durations[relativePath(module)] = Math.ceil(module.diagnostic().duration)
  const failed = ended.find(module => !module.ok() || module.errors().length > 0)
  if (failed) return { failure: { file: relativePath(failed), test: failedTest(failed) }, durations }
  const [stray] = unhandledErrors
  if (stray === undefined) return { failure: null, durations }
  return { failure: { file: files[0]!, test: String((stray as Error).message) }, durations }
}

const relativePath = ({ moduleId }: TestModule): string => moduleId.slice(root.length + 1)

function failedTest(module: TestModule): string {
  for (const test of module.children.allTests("failed")) return test.fullName
  return module.errors()[0]?.message ?? "a hook or an import"
}
