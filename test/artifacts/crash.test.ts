/**
 * SIGKILL between content, row and fact: no reference without content, no content without an end. The oracle: what the handler stores
 * is known from the id of its job, and what is stored is read from the folder.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readdirSync, rmSync, utimesSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it, onTestFinished } from "vitest"
import { systemClock } from "../../src/engine/clock.ts"
import { sweepFailpointNames } from "../../src/failpoints.ts"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { FleetStage } from "../broker/stage.ts"
import { programArguments } from "../support/program.ts"
import { freshDatabase } from "../support/services.ts"

const program = fileURLToPath(new URL("./program.ts", import.meta.url))

const make = defineHandler({
  name: "make",
  run: (_, ctx) => ctx.artifacts.put("made", `content of ${ctx.jobId}`),
})

async function stage(kind: string) {
  const folder = mkdtempSync(join(tmpdir(), "umbra-killed-artifacts-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const database = kind === "SQLite" ? null : await freshDatabase()
  if (database !== null) onTestFinished(database.drop)
  const content = join(folder, "content")
  return { location: database?.url ?? join(folder, "data"), content, files: () => filesIn(content) }
}

function filesIn(folder: string, isWhole = false): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter(entry => entry.isFile())
  return files.map(({ parentPath, name }) => (isWhole ? join(parentPath, name) : name))
}

/** As if all content had been written two hours ago. */
function age(content: string): void {
  const then = new Date(Date.now() - 2 * 3600_000)
  for (const path of filesIn(content, true)) utimesSync(path, then, then)
}

async function killed(failpoint: string, given: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, [...programArguments(program), ...given], {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, UMBRA_FAILPOINT: failpoint },
  })
  onTestFinished(() => void child.kill("SIGKILL"))
  const [, signal] = await once(child, "exit")
  expect(signal).toBe("SIGKILL")
}

describe.each(["SQLite", "PostgreSQL"])("a process that is killed, on %s", kind => {
  it.each(["artifact.written:1", "artifact.registered:1", "append.before:2", "append.after:2"])(
    "at %s leaves no reference without content, and no content without an end",
    async failpoint => {
      const { location, content, files } = await stage(kind)
      await killed(failpoint, [location, content, "make"])
      expect(files().length).toBeGreaterThan(0)
      const settings = { location: content, orphanHours: 0, sweepSeconds: 3600 }
      const umbra = await openUmbra(location, { handlers: [make], artifacts: settings })
      onTestFinished(() => umbra.close())
      const [job] = await umbra.jobs()
      const { status } = await umbra.wait(job!.job_id)
      expect(status).toBe("COMPLETED")
      const { output } = await umbra.node(job!.job_id, "a")
      const reference = output as { artifact: string }
      expect(await (await umbra.artifacts.get(reference)).text()).toBe(`content of ${job!.job_id}`)
      // Only what the dead process left is removed.
      age(content)
      await umbra.artifacts.sweep()
      expect(files()).toHaveLength(1)
      expect(await (await umbra.artifacts.get(reference)).text()).toBe(`content of ${job!.job_id}`)
    },
  )

  it.each(["output.moved:1", "append.before:2", "append.after:2"])(
    "at %s while a large output is moved loses no output, and leaves no content without an end",
    async failpoint => {
      const { location, content, files } = await stage(kind)
      await killed(failpoint, [location, content, "large"])
      const large = defineHandler({ name: "large", run: (_, ctx) => `${ctx.jobId} `.repeat(1_000) })
      const open = (aheadMs: number, sweepSeconds: number) =>
        openUmbra(location, {
          handlers: [large],
          artifacts: { location: content, orphanHours: 0, sweepSeconds, outputBytes: 10_000 },
          clock: { ...systemClock, now: () => Date.now() + aheadMs },
        })
      const first = await open(0, 3600)
      const [job] = await first.jobs()
      const { job_id: id } = job!
      const completed = await first.wait(id)
      await first.close()
      expect(completed).toMatchObject({ status: "COMPLETED" })
      // What was written or claimed stays for a minute.
      const umbra = await open(120_000, 1)
      onTestFinished(() => umbra.close())
      const isWhole = async () => {
        expect((await umbra.node(id, "a")).output === `${id} `.repeat(1_000)).toBe(true)
        expect((await umbra.node(id, "b")).output).toBe(id)
      }
      await isWhole()
      const swept = async () => {
        await umbra.artifacts.sweep()
        return files().length
      }
      await expect.poll(swept).toBe(1)
      await isWhole()
    },
  )

  it.each(sweepFailpointNames)(
    "while it sweeps, at %s, removes nothing that is referred to, and the next one removes the rest",
    async failpoint => {
      const { location, content, files } = await stage(kind)
      await killed(`${failpoint}:1`, [location, content, "sweep"])
      // One sweep marks and removes what has no row, the next removes what was marked.
      const left = { "artifact.marked": 3, "artifact.orphan_removed": 2, "artifact.removed": 1 }
      expect(files().length).toBe(left[failpoint])
      const artifacts = { location: content, orphanHours: 0, sweepSeconds: 1 }
      const umbra = await openUmbra(location, { handlers: [make], artifacts })
      onTestFinished(() => umbra.close())
      const [job] = await umbra.jobs()
      const reference = (await umbra.node(job!.job_id, "a")).output as { artifact: string }
      const rows = async () => (await umbra.artifacts.list()).artifacts.map(({ artifact }) => artifact)
      await expect.poll(rows).toEqual([reference.artifact])
      await expect.poll(() => files().length).toBe(1)
      expect(await (await umbra.artifacts.get(reference)).text()).toBe(`content of ${job!.job_id}`)
    },
  )
})

it.each(["artifact.written:1", "artifact.registered:1"])(
  "a worker of a fleet that is killed at %s leaves no reference without content, and no content without an end",
  async failpoint => {
    const fleet = new FleetStage()
    const { content, files } = await stage("SQLite")
    const umbra = await fleet.engine({ artifacts: { location: content, orphanHours: 1, sweepSeconds: 3600 } })
    const dead = killed(failpoint, [fleet.url, content, "work", JSON.stringify(fleet.redis)])
    await fleet.served(umbra, "make")
    const job = await umbra.submit({ name: "makes", nodes: [{ id: "a", handler: "make" }] } as never)
    await dead
    const left = files()
    expect(left).toHaveLength(1)
    expect((await umbra.artifacts.list()).artifacts).toHaveLength(
      failpoint.startsWith("artifact.written") ? 0 : 1,
    )
    fleet.worker({ handlers: [make], artifacts: { location: content } })
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    const reference = (await umbra.node(job.id, "a")).output as { artifact: string }
    const text = async () => (await umbra.artifacts.get(reference)).text()
    expect(await text()).toBe(`content of ${job.id}`)
    age(content)
    await umbra.artifacts.sweep()
    expect(files()).toHaveLength(1)
    expect(files()[0] === left[0]).toBe(failpoint.startsWith("artifact.registered"))
    expect(await text()).toBe(`content of ${job.id}`)
  },
  900_000,
)
