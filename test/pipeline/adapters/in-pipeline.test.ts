import { spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, afterEach, describe, expect, it, onTestFinished } from "vitest"
import type { Json } from "../../../src/core/json.ts"
import { pipeline } from "../../../src/definition/typed/builder.ts"
import { adapters } from "../../../src/pipeline/adapters/index.ts"
import { openUmbra, type Umbra } from "../../../src/umbra.ts"
import { programArguments } from "../../support/program.ts"
import { freshDatabase } from "../../support/services.ts"

const folder = mkdtempSync(join(tmpdir(), "umbra-in-pipeline-"))
afterAll(() => rmSync(folder, { recursive: true }))

let umbra: Umbra | undefined
afterEach(async () => {
  await umbra?.close()
  umbra = undefined
})

async function run(definition: Parameters<Umbra["submit"]>[0], input: Json = null) {
  umbra = await openUmbra("memory:", { files: { allowFiles: [folder] } })
  const job = await umbra.submit(definition, input)
  const { status } = await job.wait({ timeoutMs: 60_000 })
  return { status, deadLetters: (await umbra.pipelines.deadLetters(job.id)).dead_letters }
}

const rows = (name: string) =>
  readFileSync(join(folder, name), "utf8")
    .trimEnd()
    .split("\n")
    .map(line => JSON.parse(line))

const orders = Array.from({ length: 90 }, (_, i) => ({ customer: `c${i % 3}`, total: i }))

describe("built-in adapters in a pipeline", () => {
  it("JSON lines → aggregate by key → JSON lines, written with the builder", async () => {
    writeFileSync(join(folder, "orders.jsonl"), orders.map(order => `${JSON.stringify(order)}\n`).join(""))
    const sums = pipeline("sums", flow => {
      const orders = flow.queue<{ customer: string; total: number }>("orders")
      flow
        .route("read", { inbound: "files", outbound: orders })
        .adapter(adapters.jsonlSource, { path: "orders.jsonl", lines_per_step: 25 })
      flow.route("sum", { inbound: orders, outbound: "sums" }).adapter(adapters.aggregate, message => ({
        key: message.customer,
        count: 30,
        seconds: 20,
        reduce: "sum",
        field: "total",
      }))
      flow.route("write", { inbound: "sums" }).adapter(adapters.jsonlSink, { path: "sums.jsonl" })
    })
    expect(await run(sums)).toEqual({ status: "COMPLETED", deadLetters: [] })
    const sum = (customer: string) =>
      orders.reduce((total, order) => total + (order.customer === customer ? order.total : 0), 0)
    expect(rows("sums.jsonl").sort((a, b) => (a.key < b.key ? -1 : 1))).toEqual(
      ["c0", "c1", "c2"].map(key => ({ key, count: 30, value: sum(key) })),
    )
  })

  it("a batch goes to a queue of its own; written in the chain that gathers it is refused", async () => {
    const source = { type: "split", config: { items: [1, 2, 3, 4] } }
    const gathering = (more: object, ...adapters: { type: string; config: Record<string, unknown> }[]) => ({
      name: "gather",
      inbound: "numbers",
      adapters: [{ type: "batch", config: { count: 2 } }, ...adapters],
      ...more,
    })
    const sink = { type: "jsonl_sink", config: { path: "groups.jsonl", each: false } }
    const begin = { name: "begin", inbound: "begin", adapters: [source], outbound: "numbers" }
    const write = { name: "write", inbound: "groups", adapters: [sink], concurrency: 1 }
    const good = { name: "good", routes: [begin, gathering({ outbound: "groups" }), write] }
    expect(await run(good)).toEqual({ status: "COMPLETED", deadLetters: [] })
    expect(rows("groups.jsonl")).toEqual([
      [1, 2],
      [3, 4],
    ])
    await umbra!.close()
    await expect(run({ name: "bad", routes: [begin, gathering({}, sink)] })).rejects.toMatchObject({
      code: "E115",
    })
  })

  it("a broken line becomes a dead letter that says where, and the rest of the step is sent when it is mended", async () => {
    writeFileSync(join(folder, "broken.jsonl"), "1\n2\n{\n4\n")
    const definition = {
      name: "broken",
      routes: [
        {
          name: "read",
          inbound: "files",
          adapters: [{ type: "jsonl_source", config: { path: "broken.jsonl", lines_per_step: 2 } }],
          outbound: "values",
        },
        {
          name: "write",
          inbound: "values",
          adapters: [{ type: "jsonl_sink", config: { path: "mended.jsonl" } }],
        },
      ],
    }
    const { status, deadLetters } = await run(definition)
    expect(status).toBe("COMPLETED")
    expect(deadLetters).toMatchObject([{ attempts: 1, error: { code: "E724", details: { line: 3 } } }])
    expect(rows("mended.jsonl").sort()).toEqual([1, 2])
  })
})

/** Runs until so many lines are about to be written, then dies; 0: to the end. */
async function copy(parameters: readonly string[], dieAt: number): Promise<string> {
  const script = fileURLToPath(new URL("./pipeline-child.ts", import.meta.url))
  const child = spawn(process.execPath, [...programArguments(script), ...parameters, String(dieAt)], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  let output = ""
  child.stdout.on("data", data => {
    output += data
  })
  await new Promise(resolve => child.on("close", resolve))
  return output
}

it("P3 killed in the midst of copying: every line is written once", async () => {
  const place = join(folder, "killed")
  mkdirSync(place)
  const [file, out] = [join(place, "in"), join(place, "out")]
  const texts = Array.from({ length: 1000 }, (_, i) => `line ${i + 1}`)
  writeFileSync(file, texts.join("\n"))
  const database = await freshDatabase()
  onTestFinished(database.drop)
  const parameters = [database.url, file, out]
  expect(await copy(parameters, 300)).toBe("")
  expect(rows("killed/out").length).toBeLessThan(1000)
  expect(await copy(parameters, 0)).toBe("COMPLETED")
  const written = rows("killed/out").map(({ text }) => text)
  expect(written.sort()).toEqual(texts.sort())
})
