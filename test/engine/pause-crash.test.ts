/** SIGKILL while a workflow is paused, right after a pause, and in the middle of the resumption of a workflow: pauses hold, and none is left over. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { describe, expect, it, onTestFinished } from "vitest"
import { workflowWithAliases } from "../../src/jobs/workflows.ts"
import { openJournal } from "../../src/journal/open.ts"
import { stores } from "../server/stage.ts"
import { programArguments } from "../support/program.ts"
import { handler, open, until } from "./stage.ts"

const script = fileURLToPath(new URL("./pause-child.ts", import.meta.url))
const engine = { beatSeconds: 0.1, leaseSeconds: 1 }
const JOBS = 450

/** Runs the child until it kills itself. Returns what it printed: ids by word. */
async function killed(...args: string[]): Promise<ReadonlyMap<string, string[]>> {
  const child = spawn(process.execPath, [...programArguments(script), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  onTestFinished(() => void child.kill("SIGKILL"))
  const exit = once(child, "exit")
  const printed = new Map<string, string[]>()
  for await (const line of createInterface({ input: child.stdout })) {
    const [word = "", id = ""] = line.split(" ")
    printed.set(word, [...(printed.get(word) ?? []), id])
  }
  const [, signal] = await exit
  expect(signal).toBe("SIGKILL")
  return printed
}

async function storeOf(kind: string): Promise<string> {
  const { location, remove } = await stores[kind]!()
  onTestFinished(() => remove())
  return location
}

/** Ids of the jobs of which a fact of this type is recorded, once for each fact. */
async function jobsWith(location: string, type: string, ids: readonly string[]): Promise<string[]> {
  const journal = await openJournal(location)
  try {
    const facts = await journal.readFacts(ids)
    return facts.filter(fact => fact.type === type).map(({ jobId }) => jobId)
  } finally {
    await journal.close()
  }
}

describe.each(["SQLite", "PostgreSQL"])("SIGKILL on %s", kind => {
  it("right after the pause of a job: it stays paused, and continues when it is resumed", {
    timeout: 240_000,
  }, async () => {
    const location = await storeOf(kind)
    const [id = ""] = (await killed(location, "job")).get("paused")!
    const runs: string[] = []
    const handlers = ["stays", "act"].map(name => handler(name, () => void runs.push(name)))
    const umbra = await open({ at: location, handlers, engine })
    await until("all partitions are taken", () => umbra.health().partitions === 64)
    expect((await umbra.job(id)).paused).toMatchObject({ by: "ada", reason: "prices" })
    // The attempt that was lost with the process waits too.
    await until("its node is held", async () => {
      const { reasons } = await umbra.why(id, { node: "a" })
      return reasons[0]?.kind === "paused"
    })
    // A job that is not paused passes it.
    const other = await umbra.submit({ name: "other", nodes: [{ id: "a", handler: "act" }] })
    await other.wait()
    expect(runs).toEqual(["act"])
    await umbra.resume(id)
    expect(await umbra.wait(id)).toMatchObject({ status: "COMPLETED", paused: null })
    expect(runs).toEqual(["act", "stays", "act"])
    expect(await umbra.queries.verify(await umbra.queries.row(id))).toEqual([])
  })

  it.each(["before", "during", "after"])(
    "%s the statement that pauses a workflow: it is paused or not, and what is shown is true",
    { timeout: 240_000 },
    async moment => {
      const location = await storeOf(kind)
      const printed = await killed(location, "pausing", moment, "1", "20")
      const umbra = await open({ at: location, handlers: [handler("act", () => {})], engine })
      const shown = await workflowWithAliases(umbra, { owner: "local", name: "held" })
      const { paused } = shown as { readonly paused: object | null }
      if (moment === "before") expect(paused).toBeNull()
      if (moment === "after") expect(paused).not.toBeNull()
      if (paused !== null) expect(paused).toMatchObject({ by: "ada", reason: "prices" })
      // No job was submitted after the pause was acknowledged: each runs, also those that no answer came for.
      const before = await umbra.jobs({ limit: 1000 })
      expect(before.map(({ job_id }) => job_id)).toEqual(expect.arrayContaining(printed.get("before")!))
      for (const { job_id } of before)
        expect(await umbra.wait(job_id)).toMatchObject({ status: "COMPLETED", paused: null })
      const next = await umbra.submit("held")
      if (paused === null) {
        expect(await next.wait()).toMatchObject({ status: "COMPLETED", paused: null })
        return
      }
      expect(await next.status()).toMatchObject({
        status: "QUEUED",
        paused: { by: "ada", reason: "workflow paused: prices", of_workflow: true },
      })
      expect((await umbra.why(next.id)).reasons).toMatchObject([{ kind: "paused" }])
      await umbra.resumeWorkflow("held")
      expect(await next.wait()).toMatchObject({ status: "COMPLETED", paused: null })
    },
  )

  it.each([
    ["before", 1],
    ["after", 1],
    ["before", 2],
    ["after", 3],
  ] as const)(
    "%s append number %i of the resumption of a workflow: every job runs once, none stays paused",
    {
      timeout: 240_000,
    },
    async (moment, append) => {
      const location = await storeOf(kind)
      const printed = await killed(location, "workflow", moment, String(append), String(JOBS))
      const held = printed.get("held")!
      const [own = ""] = printed.get("own")!
      expect(held).toHaveLength(JOBS)
      // What had begun before the process died was resumed before.
      const resumedBefore = await jobsWith(location, "job_resumed", held)
      expect(resumedBefore.length).toBeLessThan(JOBS - 1)
      for (const id of printed.get("ran") ?? []) expect(resumedBefore).toContain(id)
      const umbra = await open({ at: location, handlers: [handler("act", () => {})], engine })
      for (const id of held.filter(id => id !== own))
        expect(await umbra.wait(id)).toMatchObject({ status: "COMPLETED", paused: null })
      expect(await umbra.job(own)).toMatchObject({ status: "QUEUED", paused: { by: "bob" } })
      expect((await umbra.why(own)).reasons).toMatchObject([{ kind: "paused" }])
      // The workflow is not paused any more.
      expect(await (await umbra.submit("held")).wait()).toMatchObject({ status: "COMPLETED", paused: null })
      await umbra.resume(own)
      expect((await umbra.wait(own)).status).toBe("COMPLETED")
      await umbra.close()
      for (const type of ["job_resumed", "node_completed"])
        expect((await jobsWith(location, type, held)).sort()).toEqual([...held].sort())
    },
  )
})
