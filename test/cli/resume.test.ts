import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, describe, expect, it, onTestFinished } from "vitest"
import { Reader } from "../../src/jobs/reader.ts"
import { openJournal } from "../../src/journal/open.ts"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { until } from "../engine/stage.ts"
import { freshDatabase } from "../support/services.ts"
import { handlersModule, oneNode } from "./handlers-for-runs.ts"
import { umbra } from "./same-process.ts"
import { folderWith, startUmbra } from "./umbra.ts"

const folder = folderWith({ "handlers.mjs": handlersModule })
const path = (name: string) => join(folder.path, name)
const handlers = ["--handlers", path("handlers.mjs")]
afterAll(() => folder.remove())

async function killedInTheMiddle(log: string, flags: readonly string[]): Promise<void> {
  const definition = {
    name: "two",
    nodes: [
      { id: "first", handler: "echo", config: { log } },
      { id: "second", handler: "long_once", config: { log }, dependencies: ["first"] },
    ],
  }
  writeFileSync(path("two.json"), JSON.stringify(definition))
  const running = startUmbra(["run", path("two.json"), ...handlers, ...flags])
  await running.wrote(/second is running/)
  running.kill("SIGKILL")
  await running.ended
}

// Each opening of a folder takes a second or two, and these need several.
describe("umbra resume", () => {
  it("J5 finishes on a folder what a killed process left, without running again what was done", async () => {
    const flags = ["--data-dir", path("data")]
    const log = path("folder.log")
    await killedInTheMiddle(log, flags)
    const withoutHandlers = await umbra(["resume", ...flags])
    expect(withoutHandlers.code).toBe(0)
    expect(withoutHandlers.stdout).toMatch(/two {2}needs handler "long_once" for node second: add --handlers/)
    const resumed = await umbra(["resume", ...handlers, ...flags])
    expect(resumed).toMatchObject({ code: 0, stderr: "" })
    expect(resumed.stdout).toMatch(/✓ \S+ {2}two {2}COMPLETED\n1 job completed\.\n$/)
    expect(readFileSync(log, "utf8").trim().split("\n")).toEqual(["first 1", "second 1", "second 3"])
    expect((await umbra(["resume", ...handlers, ...flags])).stdout).toMatch(/^No unfinished jobs in /)
  })

  it("S9 has the artifacts of the folder, and outputs that were moved there", async () => {
    const data = path("kept")
    // It runs until its process stops.
    const keep = defineHandler({ name: "keep", run: () => new Promise<null>(() => {}) })
    const large = defineHandler({ name: "large", run: () => "x".repeat(50_000) })
    const first = await openUmbra(data, {
      ...{ handlers: [keep, large], engine: { drainSeconds: 0 }, artifacts: { outputBytes: 10_000 } },
    })
    const nodes = [
      { id: "large", handler: "large" },
      { id: "kept", handler: "keep", config: { text: "{{ large }}" } },
    ]
    const { id } = await first.submit({ name: "keeps", nodes } as never)
    await until("it runs", async () => (await first.graph(id)).nodes[1]!.status === "RUNNING")
    await first.close()
    writeFileSync(
      path("keep.mjs"),
      `export const keep = { name: "keep", run: ({ text }, ctx) => ctx.artifacts.put("kept", text) }
       export const large = { name: "large", run: () => { throw new Error("it was done") } }`,
    )
    const resumed = await umbra(["resume", "--handlers", path("keep.mjs"), "--data-dir", data])
    expect(resumed.stdout).toMatch(/✓ \S+ {2}keeps {2}COMPLETED/)
    const node = await umbra(["jobs", "show", id, "kept", "--json", "--data-dir", data])
    expect(node.stdout).toContain('"bytes": 50000')
    const verified = await umbra(["jobs", "verify", id, "--data-dir", data])
    expect(verified).toMatchObject({ code: 0 })
    const removed = await umbra(["jobs", "delete", id, "--data-dir", data])
    expect(removed.code).toBe(0)
  })

  it("J5 does so on PostgreSQL, and leaves what waits for long", async () => {
    const database = await freshDatabase()
    const flags = ["--database-url", database.url]
    const log = path("postgres.log")
    try {
      await killedInTheMiddle(log, flags)
      const journal = await openJournal(database.url)
      onTestFinished(() => journal.close())
      const reader = new Reader(journal)
      const [two] = await reader.jobs({ limit: 1 })
      writeFileSync(path("sleep.json"), oneNode("sleep", { seconds: 3600 }))
      const sleeping = startUmbra(["run", path("sleep.json"), ...flags])
      await sleeping.wrote(/only sleeps until/)
      await until("it has taken the other job over", async () => {
        const { nodes } = await reader.graph(two!.job_id)
        return nodes.find(({ id }) => id === "second")!.attempt === 2
      })
      sleeping.kill("SIGKILL")
      await sleeping.ended
      const resumed = await umbra(["resume", "--json", ...handlers, ...flags])
      expect(resumed).toMatchObject({ code: 0, stderr: "" })
      const { jobs } = JSON.parse(resumed.stdout)
      const byWorkflow = Object.fromEntries(jobs.map((job: { workflow: string }) => [job.workflow, job]))
      expect(byWorkflow.two).toMatchObject({ status: "COMPLETED", left: null })
      expect(byWorkflow.sleep.left).toMatch(/^node only waits for a timer until \S+Z \(in (59 min|1 h)/)
      // The engine that ran `sleep` had taken the job over too, and had no handler for it.
      expect(readFileSync(log, "utf8").trim().split("\n")).toEqual(["first 1", "second 1", "second 3"])
    } finally {
      await database.drop()
    }
  })

  it("says that jobs are unfinished when it is stopped before they have ended", async () => {
    const flags = ["--data-dir", path("stopped")]
    writeFileSync(path("endless.json"), oneNode("endless"))
    writeFileSync(
      path("endless.mjs"),
      `export const endless = { name: "endless", run: (_, { signal }) => new Promise((_, reject) => {
        process.stderr.write("begun\\n")
        signal.addEventListener("abort", () => reject(signal.reason))
      }) }`,
    )
    const module = ["--handlers", path("endless.mjs")]
    await umbra(["push", path("endless.json"), ...module, ...flags])
    await umbra(["submit", "endless", ...flags])
    const resuming = startUmbra(["resume", ...module, ...flags, "--set", "drain_seconds=0.1"])
    await resuming.wrote(/begun/)
    resuming.kill("SIGINT")
    const { code, stdout } = await resuming.ended
    expect({ code, stdout }).toEqual({ code: 1, stdout: "0 jobs completed, 1 left unfinished.\n" })
  })

  it("exits 1 when a job it finished did not complete", async () => {
    const flags = ["--data-dir", path("failing")]
    writeFileSync(path("fails.json"), oneNode("fails_once"))
    const failed = JSON.parse(
      (await umbra(["run", path("fails.json"), ...handlers, ...flags, "--json"])).stdout,
    )
    await umbra(["jobs", "retry", failed.job_id, ...flags])
    writeFileSync(
      path("failing.mjs"),
      'export const h = { name: "fails_once", run() { throw new Error("again") } }',
    )
    const resumed = await umbra(["resume", "--handlers", path("failing.mjs"), ...flags])
    expect(resumed.code).toBe(1)
    expect(resumed.stdout).toMatch(/✗ \S+ {2}fails_once {2}FAILED {2}node only: E401 again/)
  })
})
