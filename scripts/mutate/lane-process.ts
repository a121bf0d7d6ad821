/**
 * One vitest in a process of its own, which keeps the transformed modules from request to request. A request gets a fresh
 * worker process, either for one mistake, which the environment names, or for many, one after another (`warm`).
 */
import { mkdirSync, writeFileSync } from "node:fs"
import { createVitest, type TestModule, type TestSpecification } from "vitest/node"

/** `hits`: which mistakes each test file reaches; `cold`: one mistake; `warm`: many. */
export type LaneMode = "hits" | "cold" | "warm"

/** The test files run one after another until a test fails. */
export interface TestRun {
  /** The mistake; -1: none. */
  readonly id: number
  readonly files: readonly string[]
  /** Only load what the tests use. */
  readonly isLoading?: boolean
}

export interface LaneRequest {
  readonly runs: readonly TestRun[]
  readonly env: Readonly<Record<string, string>>
}

/** One for each run. */
export interface LaneReply {
  /** The first failed test, or null. */
  readonly failure: { readonly file: string; readonly test: string } | null
  /** The first failed test of each file in which one failed. */
  readonly failures: Readonly<Record<string, string>>
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

const [root, mode] = process.argv.slice(2) as [string, LaneMode]

const vitest = await createVitest("test", {
  root,
  config: false,
  watch: false,
  include: ["test/**/*.test.ts"],
  pool: "forks",
  maxWorkers: 1,
  isolate: false,
  bail: mode === "cold" ? 1 : 0,
  setupFiles: mode === "hits" ? ["scripts/mutate/note-hits.ts"] : [],
  reporters: [{ onTestModuleEnd }],
  silent: true,
  sequence: { sequencer: AsGiven },
  testTimeout: 240_000,
  hookTimeout: 240_000,
  expect: { poll: { timeout: 60_000 } },
})

let before = Promise.resolve()
process.on("message", (request: LaneRequest) => {
  // The last reply comes before vitest has ended its worker.
  before = before.then(() => answer(request))
})
process.on("disconnect", () => process.exit())
process.send!("ready")

async function answer({ env, runs }: LaneRequest): Promise<void> {
  Object.assign(process.env, env)
  if (mode === "warm") await runVitest(runs.map(program))
  else for (const { files } of runs) reply(await runCold(files))
}

function onTestModuleEnd(module: TestModule): void {
  if (mode !== "warm") return void ended.push(module)
  const test = failureOf(module)
  reply({ failure: test === null ? null : { file: fileOf(test), test }, failures: {}, durations: {} })
}

async function runCold(files: readonly string[]): Promise<LaneReply> {
  ended = []
  const { unhandledErrors } = await runVitest(files)
  const durations: Record<string, number> = {}
  const failures: Record<string, string> = {}
  for (const module of ended) {
    durations[relativePath(module)] = Math.ceil(module.diagnostic().duration)
    const test = failureOf(module)
    if (test !== null) failures[relativePath(module)] = test
  }
  const [first] = Object.entries(failures)
  if (first !== undefined) return { failure: { file: first[0], test: first[1] }, failures, durations }
  const [stray] = unhandledErrors
  const failure = stray === undefined ? null : { file: files[0]!, test: String((stray as Error).message) }
  return { failure, failures, durations }
}

async function runVitest(files: readonly string[]) {
  AsGiven.order = files.map(file => `${root}/${file}`)
  const project = vitest.getRootProject()
  return vitest.runTestSpecifications(AsGiven.order.map(path => project.createSpecification(path)))
}

function reply(message: LaneReply): void {
  process.send!(message)
}

const relativePath = ({ moduleId }: TestModule): string => moduleId.slice(root.length + 1)

/** The name of the first failed test; null: none failed. */
function failureOf(module: TestModule): string | null {
  if (module.ok() && module.errors().length === 0) return null
  for (const test of module.children.allTests("failed")) return test.fullName
  return module.errors()[0]?.message ?? "a hook or an import"
}

let written = 0

/**
 * A test file that makes a mistake, then loads the run's test files anew, which get a query of their own for that. The modules
 * that they import are those of the run before.
 */
function program({ id, files, isLoading = false }: TestRun): string {
  // Each lane has a folder of its own: the processes share `root`.
  const folder = `warm/${process.pid}`
  mkdirSync(`${root}/${folder}`, { recursive: true })
  const path = `${folder}/${++written}.test.ts`
  const lines = [
    'import { afterEach, beforeEach, describe } from "vitest"',
    'import { makeMistake } from "../../src/mutant-switch.ts"',
    `makeMistake(${id})`,
    `let isOver = ${isLoading}`,
    "beforeEach(({ skip }) => skip(isOver))",
    'afterEach(({ task }) => { isOver ||= task.result?.state === "fail" })',
    ...files.map(
      file => `describe("${file}", async () => void (await import("../../${file}?run=${written}")))`,
    ),
  ]
  writeFileSync(`${root}/${path}`, lines.join("\n"))
  return path
}

/** The test file's name is the first part of a test's full name: see `program`. */
const fileOf = (fullName: string): string => fullName.split(" > ")[0]!
