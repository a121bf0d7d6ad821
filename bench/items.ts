/**
 * Items of `for_each` compared with as many plain parallel nodes, all in one job, and lists of 100 MB:
 * decision 18.
 */
import { execFile } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { openUmbra, type Umbra } from "../src/umbra.ts"
import { defineHandler } from "../src/worker/handler.ts"
import { databaseUrl } from "./services.ts"

const SIZE = 10_000
const RUNS = 3

const nothing = defineHandler({ name: "nothing", run: () => 1 })

const list = {
  name: "list",
  nodes: [{ id: "each", handler: "nothing", config: { n: "{{ item }}" }, for_each: `{{ range(${SIZE}) }}` }],
}
const parallel = {
  name: "parallel",
  nodes: Array.from({ length: SIZE }, (_, n) => ({
    id: `n${n}`,
    handler: "nothing",
    config: { n: "{{ input.n }}" },
  })),
}

export async function items(): Promise<void> {
  await compare("memory", "memory:")
  const database = await databaseUrl()
  await compare("PostgreSQL", database.url)
  await database.drop()
  for (const name of ["made", "between", "given"]) await large(name)
}

/** Each in a separate process, so that the memory is its alone. */
async function large(name: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "umbra-bench-"))
  await largeOn("SQLite", join(folder, "umbra"), name)
  await rm(folder, { recursive: true, force: true })
  const database = await databaseUrl()
  await largeOn("PostgreSQL", database.url, name)
  await database.drop()
}

async function largeOn(store: string, location: string, name: string): Promise<void> {
  const script = fileURLToPath(new URL("./large-items-process.js", import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [script, location, name])
  const { seconds, stallMs, megabytes, before } = JSON.parse(stdout) as Record<string, number>
  console.log(
    `${store}: 10,000 × 10 KB ${name}: ${seconds!.toFixed(1)} s, ${megabytes} MB at most (${before} MB before), ` +
      `longest turn of the event loop ${stallMs} ms`,
  )
}

async function compare(store: string, location: string): Promise<void> {
  const umbra = await openUmbra(location, { handlers: [nothing] })
  try {
    const [ofItems, ofNodes] = [await best(umbra, list), await best(umbra, parallel)]
    const ratio = (ofItems / ofNodes).toFixed(2)
    console.log(
      `${store}: ${SIZE} items ${ofItems.toFixed(0)} ms, nodes ${ofNodes.toFixed(0)} ms, ${ratio} × per item`,
    )
  } finally {
    await umbra.close()
  }
}

/** The first run compiles and warms up, and does not count. */
async function best(umbra: Umbra, workflow: typeof list | typeof parallel): Promise<number> {
  const times: number[] = []
  for (let run = 0; run <= RUNS; run++) {
    const started = performance.now()
    const job = await umbra.submit(workflow, { n: 1 })
    await job.wait()
    times.push(performance.now() - started)
  }
  return Math.min(...times.slice(1))
}
