/** X7 on a folder: a disk without space is waited for, as a PostgreSQL that is away is. */
import { execFileSync } from "node:child_process"
import { appendFileSync } from "node:fs"
import { mkdir, readdir, rm } from "node:fs/promises"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { openJournal } from "../../src/journal/open.ts"
import { freshFolder } from "../journal/folder.ts"
import { collectLog, flow, gate, open, until } from "./stage.ts"

/** A disk of this size, which is gone when the test is. */
async function smallDisk(size: string): Promise<string> {
  const folder = await freshFolder()
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size},mode=0700`, "tmpfs", folder], { stdio: "pipe" })
  } catch (cause) {
    const { stderr } = cause as { stderr?: Buffer }
    throw new Error(
      `this test needs a small file system of its own, and mounting a tmpfs failed: ${stderr}. Run it as root with the right to mount (in a container: --cap-add SYS_ADMIN).`,
      { cause },
    )
  }
  onTestFinished(() => void execFileSync("umount", ["--lazy", folder]))
  return folder
}

/** Writes until there is no byte left. */
function fill(file: string): void {
  for (const size of [65_536, 4_096, 1])
    try {
      for (const bytes = Buffer.alloc(size); ; ) appendFileSync(file, bytes)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error
    }
}

it.runIf(process.platform === "linux")(
  "a full disk: the engine pauses, keeps results, and resumes when there is space; nothing runs again",
  async () => {
    const disk = await smallDisk("16m")
    const [folder, ballast] = [join(disk, "data"), join(disk, "ballast")]
    const { log, lines, hasLogged } = collectLog()
    const journal = await openJournal(folder, { retry: { initialMs: 20, maxMs: 100 } })
    const busy = gate()
    const engine = await open({ at: journal, handlers: [busy.handler], log })
    const twoNodes = flow([
      { id: "a", handler: "gate" },
      { id: "b", handler: "transform", config: { value: 2 }, dependencies: ["a"] },
    ])
    const [job, other] = [await engine.submit(twoNodes), await engine.submit(twoNodes)]
    await busy.came(2)
    fill(ballast)
    const output = "x".repeat(500_000)
    busy.open(output)
    await until("the engine says that it has paused", () => hasLogged("database unavailable: engine paused"))
    expect(lines.find(({ message }) => message.includes("paused"))?.fields.error).toContain(
      "the disk is full",
    )
    await expect(engine.submit(twoNodes)).rejects.toMatchObject({ code: "E611" })
    expect(await engine.job(job.id)).toMatchObject({ status: "PROCESSING" })

    await rm(ballast)
    for (const { id } of [job, other]) {
      expect(await engine.wait(id, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
      expect(await engine.queries.verify(await engine.queries.row(id))).toEqual([])
      expect((await engine.node(id, "a")).output).toBe(output)
    }
    expect(hasLogged("database available again")).toBe(true)
    expect(busy.entered).toHaveLength(2)
    expect(await (await engine.submit(twoNodes)).wait()).toMatchObject({ status: "COMPLETED" })
  },
)

it.runIf(process.platform === "linux")(
  "a first start on a full disk leaves no lock behind, for whose holder the next start would wait",
  async () => {
    const disk = await smallDisk("1m")
    const [folder, ballast] = [join(disk, "data"), join(disk, "ballast")]
    await mkdir(folder)
    fill(ballast)
    await expect(openJournal(folder)).rejects.toMatchObject({ code: "E504" })
    expect(await readdir(folder)).toEqual([])
  },
)
