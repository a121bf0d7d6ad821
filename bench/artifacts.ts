/**
 * Artifacts: how fast content is stored and read, by its size, on both databases; and what references cost a chain, whose nodes pass one
 * on, beside the same chain with an equally long text, in alternating rounds on one engine; and what large outputs in the content store
 * cost, and how long jobs with small outputs take beside them.
 */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { defineHandler, openUmbra, type Umbra, type WorkflowDefinition } from "umbra"
import { databaseUrl } from "./services.ts"

const ROUNDS = 7
const NODES = 10
const IN_FLIGHT = 50
const SIZES = [4 * 1024, 1024 * 1024, 64 * 1024 * 1024]
/** Of each size, and round. */
const BYTES = 128 * 1024 * 1024
const MOST = 500

const handlers = [
  defineHandler({ name: "pass", run: config => config }),
  defineHandler({ name: "large", run: config => ({ text: largeText((config as { n: number }).n) }) }),
]
/** Of a large output, and the size above which outputs are in the content store. */
const LARGE = 256 * 1024
const OUTPUT_BYTES = 64 * 1024
const LARGE_IN_FLIGHT = 4

export async function artifacts(): Promise<void> {
  const scale = Number(process.env.BENCH_SCALE ?? 1)
  const folder = await mkdtemp(join(tmpdir(), "umbra-bench-artifacts-"))
  const { url, drop } = await databaseUrl()
  const places = { PostgreSQL: url, "SQLite in a folder": join(folder, "data") }
  for (const [name, location] of Object.entries(places)) {
    console.log(`\n${name}, content in a folder`)
    const umbra = await openUmbra(location, {
      ...{ handlers, worker: { concurrency: 1000 }, artifacts: { location: join(folder, name) } },
    })
    for (const size of SIZES) await transfers(umbra, size, scale)
    await chains(umbra, Math.ceil(200 * scale))
    await umbra.close()
    await largeOutputs(location, join(folder, `${name} moved`), Math.ceil(100 * scale))
  }
  await drop()
  await rm(folder, { recursive: true, force: true })
}

async function transfers(umbra: Umbra, size: number, scale: number): Promise<void> {
  const count = Math.max(2, Math.ceil(Math.min(MOST, BYTES / size) * scale))
  const hashes: string[] = []
  const put = await seconds(async () => {
    for (let n = 0; n < count; n++) hashes.push((await umbra.artifacts.put("x", content(size, n))).artifact)
  })
  const get = await seconds(async () => {
    for (const hash of hashes) for await (const _ of await umbra.artifacts.get(hash));
  })
  for (const hash of hashes) await umbra.artifacts.remove(hash)
  const speed = (took: number) =>
    `${((count * size) / 1024 / 1024 / took).toFixed(0).padStart(5)} MiB/s ${(count / took).toFixed(0).padStart(5)}/s`
  console.log(
    `  ${String(count).padStart(4)} × ${String(size / 1024).padStart(6)} KiB  put ${speed(put)}  get ${speed(get)}`,
  )
}

function* content(size: number, seed: number): Generator<Uint8Array> {
  const chunk = Buffer.alloc(Math.min(size, 256 * 1024))
  // No two are equal: equal ones would be stored once.
  chunk.writeDoubleLE(seed, 8)
  for (let at = 0; at < size; at += chunk.length) {
    chunk.writeDoubleLE(at)
    yield Buffer.from(chunk)
  }
}

async function chains(umbra: Umbra, jobs: number): Promise<void> {
  const { artifact } = await umbra.artifacts.put("x", "passed on")
  const [held, plain] = [{ artifact }, { artefact: artifact }]
  const wall: number[] = []
  const processor: number[] = []
  for (let n = 0; n <= ROUNDS; n++) {
    const used = [await chainCost(umbra, held, jobs), await chainCost(umbra, plain, jobs)] as const
    // The first round warms up.
    if (n === 0) continue
    wall.push(used[1].wall / used[0].wall)
    processor.push(used[1].processor / used[0].processor)
  }
  console.log(
    `  chain of ${NODES} that passes a reference on, beside a text: ratio ${median(wall)}, of processor time ${median(processor)}`,
  )
}

function median(ratios: number[]): string {
  const sorted = ratios.toSorted((a, b) => a - b)
  const [low, middle, high] = [0, sorted.length >> 1, sorted.length - 1].map(at => sorted[at]!.toFixed(2))
  return `${middle} [${low}, ${high}]`
}

async function chainCost(umbra: Umbra, value: Record<string, string>, jobs: number) {
  const nodes = Array.from({ length: NODES }, (_, n) => ({
    ...{ id: `n${n}`, handler: "pass", config: { value: n === 0 ? value : `{{ n${n - 1}.value }}` } },
    ...(n === 0 ? {} : { dependencies: [`n${n - 1}`] }),
  }))
  const definition = { name: `chain-${Object.keys(value)[0]}`, nodes } as WorkflowDefinition
  let left = jobs
  const lane = async () => {
    while (left-- > 0) await (await umbra.submit(definition)).wait()
  }
  const before = process.cpuUsage()
  const wall = await seconds(async () => void (await Promise.all(Array.from({ length: IN_FLIGHT }, lane))))
  const { user, system } = process.cpuUsage(before)
  return { wall, processor: user + system }
}

/** In alternating rounds, each with an engine of its own. */
async function largeOutputs(location: string, content: string, jobs: number): Promise<void> {
  const rounds: { off: LargeCost; on: LargeCost }[] = []
  for (let n = 0; n <= ROUNDS; n++) {
    const off = await largeCost(location, { location: content }, jobs)
    const on = await largeCost(location, { location: content, outputBytes: OUTPUT_BYTES }, jobs)
    if (n > 0) rounds.push({ off, on })
  }
  const of = (figure: keyof LargeCost, mode: "off" | "on") => median(rounds.map(each => each[mode][figure]))
  for (const mode of ["off", "on"] as const)
    console.log(
      `  outputs of ${LARGE / 1024} KiB, artifact_output_bytes ${mode.padEnd(3)}: processor time of a job ${of("processor", mode)} ms; ` +
        `small jobs beside them take ${of("middle", mode)} ms, p99 ${of("high", mode)} ms`,
    )
}

interface LargeCost {
  readonly processor: number
  /** Of the durations of small jobs. */
  readonly middle: number
  readonly high: number
}

async function largeCost(
  location: string,
  artifacts: { readonly location: string; readonly outputBytes?: number },
  jobs: number,
): Promise<LargeCost> {
  const umbra = await openUmbra(location, { handlers, artifacts })
  const one = (handler: string, n: number) =>
    ({ name: handler, nodes: [{ id: "a", handler, config: { n } }] }) as WorkflowDefinition
  const run = async (handler: string, n: number) => void (await (await umbra.submit(one(handler, n))).wait())
  const allLarge = async () => {
    let left = jobs
    const some = async () => {
      while (left > 0) await run("large", left--)
    }
    await Promise.all(Array.from({ length: LARGE_IN_FLIGHT }, some))
  }
  const before = process.cpuUsage()
  await allLarge()
  const { user, system } = process.cpuUsage(before)
  const small: number[] = []
  let isOver = false
  const probe = async () => {
    while (!isOver) small.push((await seconds(() => run("pass", 1))) * 1000)
  }
  const probing = probe()
  await allLarge()
  isOver = true
  await probing
  await umbra.close()
  small.sort((a, b) => a - b)
  const at = (share: number) => small[Math.floor(share * (small.length - 1))]!
  return { processor: (user + system) / 1000 / jobs, middle: at(0.5), high: at(0.99) }
}

function largeText(seed: number): string {
  return `${seed} ${performance.now()} `.repeat(LARGE / 8).slice(0, LARGE)
}

async function seconds(act: () => Promise<void>): Promise<number> {
  const begun = performance.now()
  await act()
  return (performance.now() - begun) / 1000
}
