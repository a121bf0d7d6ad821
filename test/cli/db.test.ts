import { describe, expect, it, onTestFinished } from "vitest"
import { openJournal } from "../../src/journal/open.ts"
import { flow, gate, open, until } from "../engine/stage.ts"
import { freshDatabase } from "../support/services.ts"
import { folderWith, umbra } from "./umbra.ts"

describe("umbra db restored", () => {
  it("fences the engine that runs, which begins anew; what it had in hand goes on, nothing else is repeated", async () => {
    const database = await freshDatabase()
    onTestFinished(database.drop)
    const busy = gate()
    const engine = await open({ at: database.url, handlers: [busy.handler], engine: { beatSeconds: 0.1 } })
    const job = await engine.submit(
      flow([
        { id: "a", handler: "transform", config: { value: 1 } },
        { id: "b", handler: "gate", dependencies: ["a"] },
      ]),
    )
    await busy.came()
    await until("its start is recorded", async () => (await job.graph()).nodes[1]!.status === "RUNNING")
    const { code, stdout } = await umbra(["db", "restored", "--database-url", database.url])
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining("counts as restored") })
    const journal = await openJournal(database.url)
    onTestFinished(() => journal.close())
    await until("it has everything again", async () =>
      (await journal.readPartitions()).every(({ owner, epoch }) => owner !== null && epoch > 1024),
    )
    busy.open()
    expect(await engine.wait(job.id, { timeoutMs: 20_000 })).toMatchObject({ status: "COMPLETED" })
    const lost = (await engine.events(job.id)).filter(({ type }) => type === "attempt.lost")
    expect(lost.map(({ node }) => node)).toEqual(["b"])
  }, 60_000)

  it("makes no database where there is none", async () => {
    const folder = folderWith({})
    onTestFinished(folder.remove)
    const { code, stderr } = await umbra(["db", "restored", "--data-dir", folder.path])
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining("E504") })
  })
})
