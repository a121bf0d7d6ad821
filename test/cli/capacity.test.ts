/** `umbra capacity`: workers, engines, providers and webhooks. Also: who answered a signal, in `umbra jobs show`. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { type FakeProvider, startFakeProvider } from "../../src/testing/fake-provider.ts"
import { until } from "../engine/stage.ts"
import { make, optionsFor, waiting } from "../provider/stage.ts"
import { openStage, type Stage } from "../server/stage.ts"
import { umbra } from "./same-process.ts"
import { folderWith } from "./umbra.ts"

let stage: Stage
let fake: FakeProvider
let operation: string
beforeAll(async () => {
  fake = await startFakeProvider()
  stage = await openStage({ umbra: optionsFor(fake, { over: { poll_seconds: [3600], concurrency: 1 } }) })
  operation = await waiting(stage.umbra, fake, (await stage.umbra.submit(make())).id)
})
afterAll(async () => {
  await stage?.close()
  await fake?.close()
})
const run = (...parameters: string[]) => umbra([...parameters, "--server", stage.server.url])

describe("umbra capacity", () => {
  it("shows webhooks, also rejected ones", async () => {
    expect((await run("capacity", "--webhooks", "fake")).stdout).toBe("No webhook was received.\n")
    const body = fake.webhookBody(operation)
    await stage.ask("/webhooks/fake", { method: "POST", body, headers: fake.signed(body, "a guess") })
    await until("the webhook", async () => (await run("capacity", "--webhooks", "fake")).stdout.includes("Z"))
    const { stdout, code } = await run("capacity", "--webhooks", "fake")
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^ {2}\S+Z {2}refused {2}.*E\d+.*\n$/)])
    const { webhooks } = JSON.parse((await run("capacity", "--webhooks", "fake", "--json")).stdout)
    expect(webhooks).toMatchObject([{ verdict: "refused" }])
    const wrong = await run("capacity", "--webhooks", "nobody")
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringMatching(/E660.*nobody/)])
  })

  it("shows workers, engines and providers", async () => {
    await stage.umbra.submit(make())
    await until("a waiting node", async () => (await stage.umbra.providers())[0]?.slots.waiting === 1)
    const { stdout, code } = await run("capacity")
    expect(code).toBe(0)
    expect(stdout).toMatch(
      new RegExp(
        [
          `^Workers \\(1\\)\\n  \\S+:${process.pid}  live  \\d+ of \\d+ running  \\d+ queued  \\S+  \\S+Z  .*transform.*\\n`,
          `Engines \\(1\\), 64 partitions\\n  \\S+:${process.pid}  live  64 partitions  \\S+  \\S+Z\\n`,
          "Providers \\(1\\)\\n  fake  1 of 1 slots held  1 waiting  no rate  \\d unfinished\\n$",
        ].join(""),
      ),
    )
    const json = JSON.parse((await run("capacity", "--json")).stdout)
    expect(json).toMatchObject({
      ...{ workers: [{ pid: process.pid, state: "live" }], partitions: 64, unowned: [] },
      ...{ engines: [{ pid: process.pid }], providers: [{ name: "fake", slots: { limit: 1, waiting: 1 } }] },
    })
  })

  it("needs a server", async () => {
    const nothing = { name: "nothing", nodes: [{ id: "a", handler: "transform", config: { value: 1 } }] }
    const folder = folderWith({ "nothing.json": JSON.stringify(nothing) })
    onTestFinished(folder.remove)
    await umbra(["run", "nothing.json"], { cwd: folder.path })
    const { code, stderr } = await umbra(["capacity"], { cwd: folder.path })
    expect([code, stderr]).toEqual([2, expect.stringMatching(/E604.*--server URL/s)])
  })
})

it("umbra jobs show prints who answered a signal, and when", async () => {
  const { id } = await stage.umbra.submit({
    ...{ name: "ask", nodes: [{ id: "ask", handler: "wait_for_signal", config: { signal: "go" } }] },
  } as never)
  await until("the wait", async () => (await stage.umbra.node(id, "ask")).status === "WAITING")
  expect((await run("jobs", "show", id, "ask")).stdout).toContain("waits for signal go")
  await stage.umbra.signal(id, "go", {}, { by: "token ada" })
  await stage.umbra.wait(id)
  const { stdout } = await run("jobs", "show", id, "ask")
  expect(stdout.replace(/\s+/g, " ")).toMatch(/waited \S+ \S+ for signal go, sent by token ada at \S+Z/)
})
