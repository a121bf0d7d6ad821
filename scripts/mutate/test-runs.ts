/** Runs test files against mutants: only those that reach the mutant, in the order in which they are likely to catch it soonest. */
import { mkdirSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { Mutant } from "./instrument.ts"
import { Lane } from "./lane.ts"
import type { LaneMode, TestRun } from "./lane-process.ts"

/** A mutant's run may take this much longer than the run without it. */
const SLOWER = 10
/** To load Umbra and the test files, on a machine with much else to do. */
const STARTING_MS = 60_000
const MEASURING_MS = 3_600_000

/**
 * They prove types, times, or that no drawn document crashes the parser in half a minute: a mutant is caught sooner by others.
 * The hostile templates take half a minute too, while their file is imported, which its measured time does not contain.
 */
const LEFT_OUT = /^test\/(definition\/(types\/|fuzz\.test)|core\/scale\.test|template\/hostile\.test)/

/** Compiled templates are kept: a mistake in their compilation stays in the process. */
const KEPT = /^src\/template\/(parse\/|compile\.ts)/

/** Mistakes that one process makes one after another. More of them find more of what an earlier one has left behind. */
const BATCH = 30

interface TestFile {
  readonly file: string
  readonly ms: number
  /** The mutants that it reaches. */
  readonly reaches: ReadonlySet<number>
}

interface MutantRun extends TestRun {
  readonly mutant: Mutant
  readonly limitMs: number
}

export class TestRuns {
  readonly folder: string
  /** How many test files run at a time. */
  readonly #laneCount: number
  /** For every test process. */
  env: Readonly<Record<string, string>> = {}
  readonly #files: TestFile[] = []
  /**
   * Mutants that are reached while modules are loaded: what they change stays in the process. The first test file loads a
   * module for all: any may catch them, those first that reach others of the same source.
   */
  readonly #loading = new Set<number>()
  /** How many mutants of a source file a test file has caught. */
  readonly #caught = new Map<string, number>()
  /** The test files that a mutant has survived. */
  readonly #survived = new Map<number, Set<string>>()
  readonly #lanes = new Set<Lane>()
  #ended = false

  /** The numbers of the mutants in a source file. */
  readonly #ofSource = new Map<string, number[]>()

  constructor(folder: string, lanes: number) {
    this.folder = folder
    this.#laneCount = lanes
  }

  /** Tells it of the mutants that will be tried. */
  setMutants(mutants: readonly Mutant[]): void {
    for (const { file, id } of mutants) this.#ofSource.set(file, [...(this.#ofSource.get(file) ?? []), id])
  }

  /** Runs the tests of the folders without a mistake: what they reach, and how long they take. */
  async measure(folders: readonly string[]): Promise<void> {
    const hits = join(this.folder, "hits")
    mkdirSync(hits, { recursive: true })
    const began = Date.now()
    const names = folders.flatMap(folder => this.#testsIn(folder))
    const failed: string[] = []
    const env = { ...this.env, MUTANT: "-1", MUTANT_HITS_FOLDER: hits }
    const shares = Array.from({ length: this.#laneCount }, (_, lane) =>
      names.filter((_, index) => index % this.#laneCount === lane),
    )
    await this.#inLanes("hits", shares, async (lane, files) => {
      const [reply] = await lane.run([{ id: -1, files, limitMs: MEASURING_MS }], env)
      if (reply === undefined) throw new Error("the tests do not end without a mistake")
      for (const name of files) {
        const failure = reply.failures[name]
        if (failure !== undefined) failed.push(`${name}: ${failure}`)
        if (failure !== undefined) continue
        const reached = reachedBy(hits, name)
        this.#files.push({ file: name, ms: reply.durations[name] ?? 0, reaches: new Set(reached.keys()) })
        for (const [id, isLoading] of reached) if (isLoading) this.#loading.add(id)
      }
    })
    for (const line of failed) console.log(`  left out, since it fails without a mistake: ${line}`)
    console.log(`${names.length} test files of ${folders.join(", ")} measured in ${seconds(began)} s`)
  }

  /**
   * Returns the mutants that no test of their folders catches, where one process makes many mistakes. A mutant that is caught
   * there is caught: the tests pass in the same process afterwards, without a mistake. One that is not has to be tried alone.
   */
  async uncaughtTogether(
    mutants: readonly Mutant[],
    foldersOf: (mutant: Mutant) => readonly string[],
    budgetMs: number,
  ): Promise<readonly Mutant[]> {
    const left = new Set(mutants)
    const isReached = (mutant: Mutant) => this.#reaching(mutant, foldersOf(mutant), budgetMs).length > 0
    const isKept = ({ id, file }: Mutant) => this.#loading.has(id) || KEPT.test(file)
    const suited = mutants.filter(mutant => !isKept(mutant) && isReached(mutant))
    // Neighbours are caught by the same test files.
    suited.sort((a, b) => a.file.localeCompare(b.file))
    const batches: Mutant[][] = []
    while (suited.length > 0) batches.push(suited.splice(0, BATCH))
    await this.#inLanes("warm", batches, async (lane, batch) => {
      for (let rest = batch; rest.length > 0 && !this.#ended; ) {
        const runs = rest.map(mutant => this.#runOf(mutant, foldersOf(mutant), budgetMs))
        const tried = await this.#together(lane, runs, mutant => left.delete(mutant))
        rest = rest.slice(tried)
      }
    })
    return [...left]
  }

  /** Returns how many were tried. */
  async #together(lane: Lane, runs: readonly MutantRun[], caught: (mutant: Mutant) => void): Promise<number> {
    const files = [...new Set(runs.flatMap(run => run.files))]
    const control = { id: -1, files, limitMs: this.#limit(files), mutant: null }
    const all = [{ ...control, isLoading: true }, ...runs, control]
    const found: MutantRun[] = []
    let began = Date.now()
    const replies = await lane.run(all, { ...this.env, MUTANT: "-1" }, ({ mutant, ...run }, { failure }) => {
      if (mutant !== null) this.#report(mutant, failure === null ? null : failedIn(failure), began)
      if (mutant !== null && failure !== null) found.push({ ...run, mutant })
      began = Date.now()
    })
    const tried = Math.min(replies.length - 1, runs.length)
    const last = replies[runs.length + 1]
    if (last?.failure) {
      console.log(`  ${found.length} are tried again: a mistake was left behind, ${failedIn(last.failure)}`)
      return tried
    }
    for (const { mutant } of found) caught(mutant)
    for (const [index, { mutant }] of runs.entries()) {
      const failure = replies[index + 1]?.failure
      if (failure) this.#remember(mutant, failure.file)
    }
    if (tried === runs.length || this.#ended) return tried
    this.#report(runs[tried]!.mutant, "its time limit", began)
    caught(runs[tried]!.mutant)
    return tried + 1
  }

  /** Returns the mutants that no test of their folders catches, each tried in a process of its own. */
  async uncaught(
    mutants: readonly Mutant[],
    foldersOf: (mutant: Mutant) => readonly string[],
    budgetMs: number,
  ): Promise<readonly Mutant[]> {
    const left: Mutant[] = []
    await this.#inLanes("cold", mutants, async (lane, mutant) => {
      const began = Date.now()
      const run = this.#runOf(mutant, foldersOf(mutant), budgetMs)
      const caughtBy = run.files.length === 0 ? null : await this.#catch(lane, run)
      if (this.#ended) return
      if (caughtBy === null) left.push(mutant)
      this.#report(mutant, caughtBy, began)
    })
    return left.sort((a, b) => a.id - b.id)
  }

  end(): void {
    this.#ended = true
    for (const lane of this.#lanes) lane.end()
  }

  async #catch(lane: Lane, run: MutantRun): Promise<string | null> {
    const { mutant, files } = run
    const [reply] = await lane.run([run], { ...this.env, MUTANT: String(mutant.id) })
    if (reply === undefined) return "its time limit"
    if (reply.failure === null) {
      const survived = this.#survived.get(mutant.id) ?? new Set()
      this.#survived.set(mutant.id, new Set([...survived, ...files]))
      return null
    }
    this.#remember(mutant, reply.failure.file)
    return failedIn(reply.failure)
  }

  #remember(mutant: Mutant, test: string): void {
    const key = pair(mutant.file, test)
    this.#caught.set(key, (this.#caught.get(key) ?? 0) + 1)
  }

  #report(mutant: Mutant, caughtBy: string | null, began: number): void {
    const verdict =
      caughtBy === null ? `survived ${this.#count(mutant)} test files alone` : `caught by ${caughtBy}`
    const place = `${mutant.file}:${mutant.line}`
    console.log(`  ${mutant.id} ${place} to "${mutant.replacement}": ${verdict}, ${seconds(began)} s`)
  }

  #runOf(mutant: Mutant, folders: readonly string[], budgetMs: number): MutantRun {
    const files = this.#reaching(mutant, folders, budgetMs)
    return { id: mutant.id, mutant, files, limitMs: this.#limit(files) }
  }

  #limit(files: readonly string[]): number {
    const expected = this.#files.filter(({ file }) => files.includes(file))
    return STARTING_MS + SLOWER * expected.reduce((sum, { ms }) => sum + ms, 0)
  }

  #reaching(mutant: Mutant, folders: readonly string[], budgetMs: number): readonly string[] {
    const survived = this.#survived.get(mutant.id)
    const neighbours = this.#loading.has(mutant.id) ? this.#ofSource.get(mutant.file)! : [mutant.id]
    const isNear = ({ reaches }: TestFile) => neighbours.some(id => reaches.has(id))
    const cost = (test: TestFile) => test.ms / (1 + (this.#caught.get(pair(mutant.file, test.file)) ?? 0))
    const ordered = this.#files
      // What is computed while a module is loaded may be used by any file: only the first that loads it is known to reach it.
      .filter(test => (this.#loading.has(mutant.id) || isNear(test)) && !survived?.has(test.file))
      .filter(({ file }) => folders.some(folder => file.startsWith(`${folder}/`)))
      .sort((a, b) => Number(isNear(b)) - Number(isNear(a)) || cost(a) - cost(b))
    let spent = 0
    const affordable = ordered.filter(({ ms }) => {
      spent += ms
      return spent <= budgetMs
    })
    return affordable.map(({ file }) => file)
  }

  #count({ id }: Mutant): number {
    return this.#survived.get(id)?.size ?? 0
  }

  #testsIn(folder: string): readonly string[] {
    return readdirSync(join(this.folder, folder), { recursive: true, encoding: "utf8" })
      .filter(path => path.endsWith(".test.ts"))
      .map(path => `${folder}/${path}`)
      .filter(path => !LEFT_OUT.test(path))
      .sort()
  }

  async #inLanes<T>(mode: LaneMode, tasks: readonly T[], run: (lane: Lane, task: T) => Promise<void>) {
    const queue = [...tasks]
    const work = async () => {
      const lane = new Lane(this.folder, mode)
      this.#lanes.add(lane)
      for (let task = queue.shift(); task !== undefined && !this.#ended; task = queue.shift())
        await run(lane, task)
      lane.end()
      this.#lanes.delete(lane)
    }
    await Promise.all(Array.from({ length: this.#laneCount }, work))
  }
}

const pair = (source: string, test: string): string => `${source} ${test}`
const failedIn = ({ file, test }: { file: string; test: string }): string => `${file}: ${test}`
const seconds = (since: number): string => ((Date.now() - since) / 1000).toFixed(1)

/** The mutants that a test file reaches; true: while modules were loaded. */
function reachedBy(folder: string, test: string): ReadonlyMap<number, boolean> {
  const name = test.slice("test/".length).replaceAll("/", "+")
  if (!readdirSync(folder).includes(name)) return new Map()
  const lines = readFileSync(join(folder, name), "utf8").split("\n").filter(Boolean)
  const reached = new Map<number, boolean>()
  for (const line of lines) {
    const id = Number.parseInt(line, 10)
    reached.set(id, reached.get(id) === true || line.endsWith("loading"))
  }
  return reached
}
