import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { type FreshDatabase, freshDatabase } from "../support/services.ts"
import { handlersModule, oneNode } from "./handlers-for-runs.ts"
import { folderWith, startUmbra, umbra } from "./umbra.ts"

const folder = folderWith({
  "handlers.mjs": handlersModule,
  "long.json": oneNode("long"),
  "deaf.json": oneNode("deaf"),
})
const path = (name: string) => join(folder.path, name)
let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(async () => {
  await database.drop()
  folder.remove()
})

const start = (file: string, ...rest: string[]) =>
  startUmbra(["run", path(file), "--handlers", path("handlers.mjs"), "--database-url", database.url, ...rest])
const statusOf = async (jobId: string) => {
  const { stdout } = await umbra(["jobs", "show", jobId, "--json", "--database-url", database.url])
  return JSON.parse(stdout).status
}

describe("Ctrl-C", () => {
  it("J16 cancels the job, aborts its handlers and exits 1", async () => {
    const running = start("long.json", "--json")
    await running.wrote(/only is running/)
    running.kill("SIGINT")
    const { code, stdout, stderr } = await running.ended
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      status: "CANCELLED",
      nodes: [{ id: "only", status: "CANCELLED" }],
    })
    expect(stderr).toContain("Cancelling the job")
  })

  it("pressed twice leaves at once, and says what is true of the job", async () => {
    const running = start("deaf.json")
    await running.wrote(/only is running/)
    running.kill("SIGINT")
    await running.wrote(/deaf is CANCELLED/)
    running.kill("SIGINT")
    const { code, stdout, stderr } = await running.ended
    expect(code).toBe(1)
    expect(stderr).toMatch(
      /exited at once\. Job [0-9a-f-]{36} is cancelled, so `umbra resume` does not continue it/,
    )
    expect(await statusOf(/job ([0-9a-f-]{36})/.exec(stdout)![1]!)).toBe("CANCELLED")
  })

  it.each(["run", "submit"])(
    "J16 counts with umbra %s when it comes after the job has begun and before it is shown",
    async how => {
      writeFileSync(path("hasty.json"), oneNode("hasty", { signal: "SIGINT" }))
      const flags = ["--handlers", path("handlers.mjs"), "--database-url", database.url]
      if (how === "submit") await umbra(["push", path("hasty.json"), ...flags])
      const what = how === "run" ? ["run", path("hasty.json")] : ["submit", "hasty", "--wait"]
      const { code, stdout, stderr } = await umbra([...what, "--json", ...flags])
      expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining("Cancelling the job") })
      expect(JSON.parse(stdout)).toMatchObject({ status: "CANCELLED" })
    },
  )

  it("SIGTERM that comes so early leaves the job, and says how to continue", async () => {
    writeFileSync(path("hasty.json"), oneNode("hasty", { signal: "SIGTERM" }))
    const { code, stdout } = await start("hasty.json", "--set", "drain_seconds=0.1").ended
    expect({ code, stdout }).toEqual({
      code: 1,
      stdout: expect.stringContaining("Continue the job: umbra resume"),
    })
    await umbra(["jobs", "cancel", /job ([0-9a-f-]{36})/.exec(stdout)![1]!, "--database-url", database.url])
  })

  it("SIGTERM stops the process and leaves the job for `umbra resume`", async () => {
    writeFileSync(path("once.json"), oneNode("long_once"))
    const running = start("once.json", "--set", "drain_seconds=0.1")
    await running.wrote(/only is running/)
    running.kill("SIGTERM")
    const { code, stdout } = await running.ended
    expect(code).toBe(1)
    expect(stdout).toMatch(/long_once is PROCESSING[\s\S]*Continue the job: umbra resume/)
    const jobId = /job ([0-9a-f-]{36})/.exec(stdout)![1]!
    const resumed = await umbra([
      ...["resume", "--database-url", database.url],
      ...["--handlers", path("handlers.mjs")],
    ])
    expect(resumed).toMatchObject({ code: 0, stderr: "" })
    expect(resumed.stdout).toContain(`✓ ${jobId}  long_once  COMPLETED`)
  })
})
