/** Runs test files against mutants: only those that reach the mutant, in the order in which they are likely to catch it soonest. */
import { mkdirSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { Mutant } from "./instrument.ts"
import { Lane } from "./lane.ts"

/** A mutant's run may take this much longer than the run without it. */
const SLOWER = 10
/** To load Umbra and the test files, on a machine with much else to do. */
const STARTING_MS = 60_000
const MEASURING_MS = 900_000

/** They prove types, times, or that no drawn document crashes the parser in half a minute: a mutant is caught sooner by others. */
const LEFT_OUT = /^test\/(definition\/(types\/|fuzz\.test)|core\/scale\.test)/

interface TestFile {
  readonly file: string
  readonly ms: number
  /** The mutants that it reaches. */
  readonly reaches: ReadonlySet<number>
}

export class TestRuns {
  readonly folder: string
  /** How many test files run at a time. */
  readonly #laneCount: number
  /** For every test process. */
  env: Readonly<Record<string, string>> = {}
  readonly #files: TestFile[] = []
  /** How many mutants of a source file a test file has caught. */
  readonly #caught = new Map<string, number>()
  /** The test files that a mutant has survived. */
  readonly #survived = new Map<number, Set<string>>()
  readonly #lanes = new Set<Lane>()
  #ended = false

  constructor(folder: string, lanes: number) {
    this.folder = folder
    this.#laneCount = lanes
  }

  /** Runs the tests of the folders without a mistake: what they reach, and how long they take. */
  async measure(folders: readonly string[]): Promise<void> {
    const hits = join(this.folder, "hits")
    mkdirSync(hits, { recursive: true })
    const began = Date.now()
    const names = folders.flatMap(folder => this.#testsIn(folder))
    const failed: string[] = []
    await this.#inLanes("hits", names, async (lane, name) => {
      const env = { ...this.env, MUTANT: "-1", MUTANT_HITS_FOLDER: hits }
      const reply = await lane.run({ files: [name], env }, MEASURING_MS)
      if (reply === null || reply.failure !== null)
        failed.push(`${name}: ${reply?.failure?.test ?? "does not end"}`)
      else this.#files.push({ file: name, ms: reply.durations[name] ?? 0, reaches: reachedBy(hits, name) })
    })
    for (const line of failed) console.log(`  left out, since it fails without a mistake: ${line}`)
    console.log(`${names.length} test files of ${folders.join(", ")} measured in ${seconds(began)} s`)
  }

  /** Returns the mutants that no test of their folders catches. */
  async uncaught(
    mutants: readonly Mutant[],
    foldersOf: (mutant: Mutant) => readonly string[],
    budgetMs: number,
  ): Promise<readonly Mutant[]> {
    const left: Mutant[] = []
    await this.#inLanes("mutants", mutants, async (lane, mutant) => {
      const began = Date.now()
      const files = this.#reaching(mutant, foldersOf(mutant), budgetMs)
      const caughtBy = files.length === 0 ? null : await this.#catch(lane, mutant, files)
      if (this.#ended) return
      if (caughtBy === null) left.push(mutant)
      const verdict =
        caughtBy === null ? `survived ${this.#count(mutant)} test files` : `caught by ${caughtBy}`
      const place = `${mutant.file}:${mutant.line}`
      console.log(`  ${mutant.id} ${place} to "${mutant.replacement}": ${verdict}, ${seconds(began)} s`)
    })
    return left.sort((a, b) => a.id - b.id)
  }

  end(): void {
    this.#ended = true
    for (const lane of this.#lanes) lane.end()
  }

  async #catch(lane: Lane, mutant: Mutant, files: readonly TestFile[]): Promise<string | null> {
    const expected = files.reduce((sum, { ms }) => sum + ms, 0)
    const request = { files: files.map(({ file }) => file), env: { ...this.env, MUTANT: String(mutant.id) } }
    const reply = await lane.run(request, STARTING_MS + SLOWER * expected)
    if (reply === null) return "its time limit"
    if (reply.failure === null) {
      const survived = this.#survived.get(mutant.id) ?? new Set()
      this.#survived.set(mutant.id, new Set([...survived, ...request.files]))
      return null
    }
    const key = pair(mutant.file, reply.failure.file)
    this.#caught.set(key, (this.#caught.get(key) ?? 0) + 1)
    return `${reply.failure.file}: ${reply.failure.test}`
  }

  #reaching(mutant: Mutant, folders: readonly string[], budgetMs: number): readonly TestFile[] {
    const cost = ({ file, ms }: TestFile) => ms / (1 + (this.#caught.get(pair(mutant.file, file)) ?? 0))
    const survived = this.#survived.get(mutant.id)
    const ordered = this.#files
      .filter(({ file, reaches }) => reaches.has(mutant.id) && !survived?.has(file))
      .filter(({ file }) => folders.some(folder => file.startsWith(`${folder}/`)))
      .sort((a, b) => cost(a) - cost(b))
    let spent = 0
    return ordered.filter(({ ms }) => {
      spent += ms
      return spent <= budgetMs
    })
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

  async #inLanes<T>(
    mode: "hits" | "mutants",
    tasks: readonly T[],
    run: (lane: Lane, task: T) => Promise<void>,
  ) {
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
const seconds = (since: number): string => ((Date.now() - since) / 1000).toFixed(1)

function reachedBy(folder: string, test: string): ReadonlySet<number> {
  const name = test.slice("test/".length).replaceAll("/", "+")
  if (!readdirSync(folder).includes(name)) return new Set()
  return new Set(readFileSync(join(folder, name), "utf8").split("\n").filter(Boolean).map(Number))
}
