import { copyFile, mkdir, open as openFile, readdir, readFile, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { openJournal } from "../../src/journal/open.ts"
import { openDatabase } from "../../src/journal/sqlite/driver.ts"
import { flow, gate, open, until } from "../engine/stage.ts"
import { freshDatabase } from "../support/services.ts"
import { umbra } from "./same-process.ts"
import { folderWith, startUmbra } from "./umbra.ts"

describe("umbra db restored", () => {
  it("fences the engine that runs, which begins again; what it had in flight continues, nothing else is repeated", async () => {
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
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("is marked as restored"),
    })
    const journal = await openJournal(database.url)
    onTestFinished(() => journal.close())
    await until("it has everything again", async () =>
      (await journal.readPartitions()).every(({ owner, epoch }) => owner !== null && epoch > 1024),
    )
    busy.open()
    expect(await engine.wait(job.id, { timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
    const lost = (await engine.events(job.id)).filter(({ type }) => type === "attempt.lost")
    expect(lost.map(({ node }) => node)).toEqual(["b"])
  })

  it("makes no database where there is none", async () => {
    const folder = folderWith({})
    onTestFinished(folder.remove)
    const { code, stderr } = await umbra(["db", "restored", "--data-dir", folder.path])
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining("E504") })
  })
})

describe("umbra db backup and umbra db check", () => {
  it("copy and check a folder that an engine has open; the copy is a folder's database", async () => {
    const folder = folderWith({})
    onTestFinished(folder.remove)
    const [data, copy] = [join(folder.path, "data"), join(folder.path, "copy")]
    const file = join(folder.path, "backup.db")
    const busy = gate()
    const engine = await open({ at: data, handlers: [busy.handler] })
    const twoNodes = flow([
      { id: "a", handler: "transform", config: { value: 1 } },
      { id: "b", handler: "gate", dependencies: ["a"] },
    ])
    const job = await engine.submit(twoNodes)
    await busy.came()

    const backup = await umbra(["db", "backup", file, "--data-dir", data, "--json"])
    expect(backup.stderr).toBe("")
    const { size, mode } = await stat(file)
    expect({ code: backup.code, report: JSON.parse(backup.stdout), mode: mode & 0o777 }).toEqual({
      code: 0,
      report: { file, bytes: size },
      mode: 0o600,
    })
    expect((await readdir(folder.path)).sort()).toEqual(["backup.db", "data"])
    const before = await readFile(file)
    const again = await umbra(["db", "backup", file, "--data-dir", data])
    expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining("already exists") })
    expect((await readFile(file)).equals(before)).toBe(true)
    const beside = await umbra(["db", "check", "--data-dir", data])
    expect(beside).toMatchObject({ code: 0, stdout: expect.stringMatching(/file is intact\n✓ 1 job/) })
    busy.open()
    expect(await engine.wait(job.id)).toMatchObject({ status: "COMPLETED" })

    await mkdir(copy)
    await copyFile(file, join(copy, "umbra.db"))
    expect(await umbra(["db", "restored", "--data-dir", copy])).toMatchObject({ code: 0 })
    const late = gate()
    late.open()
    const restored = await open({ at: copy, handlers: [late.handler] })
    expect(await restored.wait(job.id)).toMatchObject({ status: "COMPLETED", output: { b: "through" } })
    const ran = (await restored.events(job.id)).filter(({ type }) => type === "node.completed")
    expect(ran.map(({ node }) => node)).toEqual(["a", "b"])
  })

  it("a check finds jobs that differ from their journal, then a damaged file, and changes nothing", async () => {
    const folder = folderWith({})
    onTestFinished(folder.remove)
    const engine = await open({ at: folder.path })
    const job = await engine.submit(flow([{ id: "a", handler: "transform", config: { value: 1 } }]))
    await engine.wait(job.id)
    await engine.close()
    const file = join(folder.path, "umbra.db")
    const writer = openDatabase(file)
    writer.exec("update jobs set status = 'FAILED'")
    writer.close()
    const different = await umbra(["db", "check", "--data-dir", folder.path, "--json"])
    expect({ code: different.code, ...JSON.parse(different.stdout) }).toMatchObject({
      code: 1,
      integrity: [],
      checked: 1,
      different: [{ job_id: job.id, differences: [expect.stringContaining("COMPLETED")] }],
    })

    const { rootpage } = openDatabase(file, { readOnly: true })
      .prepare("select rootpage from sqlite_schema where name = 'jobs'")
      .get() as { rootpage: number }
    const handle = await openFile(file, "r+")
    await handle.write(Buffer.alloc(8, 0xff), 0, 8, (rootpage - 1) * 4096)
    await handle.close()
    const before = await readFile(file)
    const damaged = await umbra(["db", "check", "--data-dir", folder.path])
    expect(damaged).toMatchObject({ code: 1, stdout: expect.stringContaining("the file is damaged") })
    expect(damaged.stdout).toContain("restore a backup into an empty folder (docs/operations/backup.md)")
    const list = await umbra(["jobs", "list", "--data-dir", folder.path])
    expect(list).toMatchObject({ code: 1, stderr: expect.stringMatching(/E508 .*restore a backup/i) })
    expect((await readFile(file)).equals(before)).toBe(true)
  })

  it("on PostgreSQL a check compares the jobs alone and says so, and a backup is refused", async () => {
    const database = await freshDatabase()
    onTestFinished(database.drop)
    await (await openJournal(database.url)).close()
    const [check, backup] = await Promise.all([
      umbra(["db", "check", "--database-url", database.url]),
      umbra(["db", "backup", "never.db", "--database-url", database.url]),
    ])
    expect(check).toMatchObject({ code: 0, stdout: expect.stringMatching(/only the jobs.*\n✓ 0 jobs/) })
    expect(backup).toMatchObject({ code: 2, stderr: expect.stringContaining("pg_dump") })
  })

  it("a folder of 0.1.0 is refused with what to do", async () => {
    const folder = folderWith({})
    onTestFinished(folder.remove)
    await mkdir(join(folder.path, "database"))
    await writeFile(join(folder.path, "database", "PG_VERSION"), "17")
    const { code, stderr } = await umbra(["jobs", "list", "--data-dir", folder.path])
    expect({ code, stderr }).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/E505 .*Choose another folder/),
    })
  })
})

describe("a Node.js without SQLite", () => {
  it("is reported with what to install, and is enough for commands that need no embedded database", async () => {
    const folder = folderWith({
      "hide.cjs": `
        const Module = require("node:module")
        const load = Module._load
        Module._load = (name, ...rest) => {
          if (name === "@photostructure/sqlite") throw new Error("Cannot find module " + name)
          return load(name, ...rest)
        }
        process.getBuiltinModule = () => undefined`,
      "one.yaml": "name: one\nnodes: [{ id: a, handler: transform, config: { value: 1 } }]\n",
    })
    onTestFinished(folder.remove)
    const database = await freshDatabase()
    onTestFinished(database.drop)
    const env = { NODE_OPTIONS: `--require ${join(folder.path, "hide.cjs")}` }
    const start = (...parameters: string[]) => startUmbra(parameters, { cwd: folder.path, env }).ended
    const refused = await start("run", "one.yaml", "--data-dir", "data")
    expect(refused).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /E508 .*needs SQLite, and this Node\.js \(v\d.*use Node\.js 22\.13 or later, or install the package @photostructure\/sqlite, or name a PostgreSQL database/,
      ),
    })
    expect((await readdir(join(folder.path, "data"))).filter(name => name.startsWith("umbra.db"))).toEqual([])
    expect(await start("validate", "one.yaml")).toMatchObject({ code: 0 })
    expect(await start("run", "one.yaml", "--database-url", database.url)).toMatchObject({ code: 0 })
  })
})
