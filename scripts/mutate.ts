/**
 * `npm run mutate -- --mutants 300 --seed 1 [--room core|template|definition] [--only FILE] [--ids 4,17] [--lanes 2]` makes one small
 * mistake at a time in the sources of the pure rooms and checks that a test fails. It works in a temporary copy of the repository. For each
 * mutant only the test files run that reach it: those of its own room first, then those of the other rooms, then, for
 * what is left and not explained, slow ones, most of which need the services. A run that does not end counts as caught. Exit 0: at least 97 % are caught; 1: fewer. The
 * seed repeats a draw, `--ids` those of its mutants with these numbers; `--lanes` is how many are tried at a time.
 */
import { readFileSync } from "node:fs"
import { rm } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { main } from "./interruption.ts"
import { buildCopy, compiling, copyRepository, putIn } from "./mutate/copy.ts"
import { draw } from "./mutate/draw.ts"
import { explanationOf } from "./mutate/explained.ts"
import { type Mutant, mutated } from "./mutate/instrument.ts"
import { TestRuns } from "./mutate/test-runs.ts"
import { startServices } from "./services/all.ts"

const THRESHOLD = 0.97
const ROOMS = ["core", "template", "definition"]
const PURE = ROOMS.map(name => `test/${name}`)
/** Folders whose tests take longer, most of them because they use the services. */
const SLOW = ["simulation", "engine", "feed", "worker", "pipeline", "server"].map(name => `test/${name}`)
/** Of the first tests for one mutant. */
const FAST_BUDGET_MS = 6_000
/** Of slow tests for one mutant: an equivalent one of the core is reached by nearly all of them. */
const SLOW_BUDGET_MS = 120_000

const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "")

const { values } = parseArgs({
  options: {
    mutants: { type: "string", default: "300" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 32)) },
    room: { type: "string" },
    only: { type: "string" },
    ids: { type: "string" },
    lanes: { type: "string", default: "2" },
  },
})

await main(async signal => {
  const rooms = values.room === undefined ? ROOMS : [values.room]
  if (!rooms.every(room => ROOMS.includes(room)))
    throw new Error(`--room ${values.room}: write ${ROOMS.join(", ")}`)
  const [wanted, seed, lanes] = [wholeNumber("mutants"), wholeNumber("seed"), wholeNumber("lanes")]
  const folder = await copyRepository(root)
  signal.addEventListener("abort", () => runs.end())
  const runs = new TestRuns(folder, Math.max(1, lanes))
  try {
    const drawn = await drawMutants(folder, { rooms, wanted, seed })
    // Interrupted while the compiler ran.
    signal.throwIfAborted()
    const ids = values.ids?.split(",").map(Number)
    const mutants = ids === undefined ? drawn : drawn.filter(({ id }) => ids.includes(id))
    await putIn(folder, mutants)
    console.log(`${mutants.length} mutants, seed ${seed}, in ${folder}`)
    runs.setMutants(mutants)
    const left = await survivors(runs, mutants, signal)
    // Mutants that were not tried must not be reported as caught.
    signal.throwIfAborted()
    return report(mutants, left)
  } finally {
    runs.end()
    await rm(folder, { recursive: true, force: true })
  }
})

interface Wanted {
  readonly rooms: readonly string[]
  readonly wanted: number
  readonly seed: number
}

async function drawMutants(folder: string, { rooms, wanted, seed }: Wanted): Promise<readonly Mutant[]> {
  const drawn = draw(folder, { rooms, only: values.only, seed, count: wanted * 2 })
  const valid = await compiling(folder, drawn)
  console.log(`${drawn.length} mutations drawn, ${valid.length} of them compile`)
  return valid.slice(0, wanted).map((mutation, id) => ({ ...mutation, id }))
}

async function survivors(runs: TestRuns, mutants: readonly Mutant[], signal: AbortSignal) {
  const logCaught = (left: readonly Mutant[], by: string) => {
    console.log(`${mutants.length - left.length} of ${mutants.length} caught ${by}`)
    if (left.length > 0) console.log(`  left: --ids ${left.map(({ id }) => id).join(",")}`)
  }
  await runs.measure(PURE)
  const ownRoom = ({ file }: Mutant) => [`test/${file.split("/")[1]}`]
  const together = await runs.uncaughtTogether(mutants, ownRoom, FAST_BUDGET_MS)
  logCaught(together, "in a process of many")
  signal.throwIfAborted()
  const soon = await runs.uncaught(together, ownRoom, FAST_BUDGET_MS)
  logCaught(soon, "by fast tests of their own room")
  const pure = await runs.uncaught(soon, () => PURE, Number.POSITIVE_INFINITY)
  logCaught(pure, "by the tests of these rooms")
  // An explained one changes nothing that can be seen, and nearly all slow tests reach it.
  const explained = pure.filter(isExplained)
  const open = pure.filter(mutant => !isExplained(mutant))
  if (open.length === 0) return pure
  signal.throwIfAborted()
  // Slow tests may take hours on a busy machine: what they have to catch can be read before.
  for (const mutant of open) console.log(`\nLEFT ${described(mutant)}`)
  await buildCopy(runs.folder)
  const services = await startServices(signal)
  try {
    runs.env = services.env
    await runs.measure(SLOW)
    const left = await runs.uncaught(open, () => SLOW, SLOW_BUDGET_MS)
    return [...explained, ...left].sort((a, b) => a.id - b.id)
  } finally {
    await services.stop()
  }
}

function report(mutants: readonly Mutant[], left: readonly Mutant[]): number {
  for (const mutant of left) console.log(`\nSURVIVED ${described(mutant)}`)
  const caught = mutants.length - left.length
  const share = caught / Math.max(1, mutants.length)
  const explained = left.filter(isExplained).length
  console.log(
    `\n${caught} of ${mutants.length} mutants caught (${(share * 100).toFixed(1)} %), ` +
      `${left.length} survived, ${explained} of them explained`,
  )
  return share >= THRESHOLD ? 0 : 1
}

// Functions, no constants: `main` runs before what follows it.
function isExplained(mutant: Mutant): boolean {
  return explanationOf(mutant, sourceOf(mutant)) !== null
}

function sourceOf({ file }: Mutant): string {
  return readFileSync(`${root}/${file}`, "utf8")
}

/** The place, and the lines before and after. */
function described(mutant: Mutant): string {
  const before = sourceOf(mutant)
  const after = mutated(before, mutant)
  const from = before.lastIndexOf("\n", mutant.start - 1) + 1
  const lines = (text: string, end: number) =>
    text.slice(from, (text.indexOf("\n", end) + 1 || text.length + 1) - 1)
  const marked = (mark: string, text: string) => text.replaceAll(/^/gm, `  ${mark} `)
  const shown = [
    `${mutant.id} ${mutant.file}:${mutant.line}`,
    marked("-", lines(before, mutant.end)),
    marked("+", lines(after, mutant.start + mutant.replacement.length)),
  ]
  const why = explanationOf(mutant, before)
  return [...shown, ...(why === null ? [] : [`  explained: ${why}`])].join("\n")
}

function wholeNumber(name: "mutants" | "seed" | "lanes"): number {
  const value = Number(values[name])
  if (Number.isInteger(value) && value >= 0) return value
  throw new Error(`--${name} ${values[name]}: write a whole number`)
}
