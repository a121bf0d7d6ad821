/** Commands on a folder that `umbra serve` has: they find it through the lock, and are trusted by a file of its user. */
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest"
import { inTurn, type Turn } from "../../src/cli/target/folder-wait.ts"
import { findServer } from "../../src/cli/target/served.ts"
import { UmbraError } from "../../src/errors.ts"
import { announceServer, findHolder } from "../../src/journal/folder-lock.ts"
import { ownIdentity } from "../../src/process-identity.ts"
import { ask } from "../server/stage.ts"
import { umbra } from "./same-process.ts"
import { type Ended, folderWith, type Running, startUmbra } from "./umbra.ts"

const workflow = (handler: string) => `name: ${handler}\nnodes: [{ id: n, handler: ${handler} }]\n`
const files = folderWith({
  "approval.yaml": workflow("approval"),
  "handlers.mjs": `import { waitForSignal } from ${JSON.stringify(join(import.meta.dirname, "../../dist/index.js"))}
export const approval = { name: "approval", run: () => waitForSignal("approved") }\n`,
})
const data = join(files.path, "data")
const secret = join(data, "server.json")
afterAll(() => files.remove())

const command = (...parameters: string[]): Promise<Ended> =>
  umbra(parameters, { env: { UMBRA_DATA_DIR: data }, cwd: files.path })

async function start(...more: string[]): Promise<Running> {
  const serving = startUmbra(["serve", "--port", "0", "--handlers", "./handlers.mjs", ...more], {
    env: { UMBRA_DATA_DIR: data },
    cwd: files.path,
  })
  await serving.wrote(/listens on/)
  return serving
}

describe("a folder that is served", () => {
  let server: Running
  let before: { url: string; token: string }
  beforeAll(async () => {
    const made = await command("token", "create", "--owner", "shop", "--scope", "admin")
    expect(made.code).toBe(0)
    server = await start()
    before = JSON.parse(readFileSync(secret, "utf8"))
  })
  afterAll(() => server.kill("SIGKILL"))

  it("is worked on through its server, without a flag: push, submit, jobs, alias, workflows, token", async () => {
    expect((await command("push", "approval.yaml")).stdout).toMatch(/^approval@1 is stored in http/)
    const submitted = await command("submit", "approval")
    const id = submitted.stdout.trim()
    expect((await command("jobs", "list")).stdout).toContain(id)
    expect((await command("jobs", "signal", id, "approved")).code).toBe(0)
    expect((await command("alias", "set", "approval", "stable", "1")).code).toBe(0)
    expect((await command("watch", id)).code).toBe(0)
    expect((await command("jobs", "show", id, "--json")).stdout).toMatch(/"status": "COMPLETED"/)
  })

  it("S3 has the tokens of every owner at hand, and acts for the owner that is named", async () => {
    const made = await command("token", "create", "--owner", "ada", "--scope", "read,submit,manage")
    const token = made.stdout.trim()
    const { tokens } = JSON.parse((await command("token", "list", "--json")).stdout)
    expect(tokens.map(({ owner }: { owner: string }) => owner)).toEqual(["shop", "ada"])
    expect((await ask(before.url, "/jobs", { token })).status).toBe(200)
    expect((await command("push", "approval.yaml", "--owner", "ada")).stdout).toMatch(/^approval@1 is stored/)
    expect((await command("submit", "approval", "--owner", "ada")).code).toBe(0)
    expect((await ask(before.url, "/jobs", { token })).body.jobs).toHaveLength(1)
    const listed = JSON.parse((await command("jobs", "list", "--json")).stdout).jobs
    expect(listed.map(({ owner }: { owner: string }) => owner)).toEqual(["ada", "local"])
  })

  it("S3 makes its secret readable for its user alone", async () => {
    expect(statSync(secret).mode & 0o777).toBe(0o600)
    const locks = readdirSync(data).filter(name => name.startsWith("lock."))
    expect(locks.map(name => readFileSync(join(data, name), "utf8")).join()).not.toContain(before.token)
    const { stdout, stderr } = await command("jobs", "list", "--verbose")
    expect(stderr).toBe(`Using the server at ${before.url}, which has ${data}.\n`)
    expect(stdout + stderr).not.toContain(before.token)
    const forged = before.token.replace(/.$/, last => (last === "A" ? "B" : "A"))
    expect((await ask(before.url, "/jobs", { token: forged })).status).toBe(401)
  })

  it("S3 does not use a file that others could have read", async () => {
    chmodSync(secret, 0o644)
    try {
      const { code, stderr } = await command("jobs", "list")
      expect(code).toBe(1)
      expect(stderr).toMatch(/E503 process \d+ of another user serves .* at http\S+ Use --server http/)
    } finally {
      chmodSync(secret, 0o600)
    }
  })

  it("is read beside its server; what only its holder can do is refused with what works", async () => {
    expect(await command("jobs", "verify", "--all")).toMatchObject({ code: 0 })
    const { code, stderr } = await command("db", "restored")
    expect(code).toBe(1)
    expect(stderr).toMatch(/E503 .* in use by process \d+.*It is served at http\S+: `umbra push`/)
  })

  it("S3 has a new secret at each start; the old one is worthless, and gone when the server has ended", async () => {
    server.kill("SIGTERM")
    const ended = await server.ended
    expect(ended.code).toBe(0)
    expect(ended.stdout + ended.stderr).not.toContain(before.token)
    expect(readdirSync(data)).not.toContain("server.json")
    server = await start()
    const { url, token } = JSON.parse(readFileSync(secret, "utf8"))
    expect(token).not.toBe(before.token)
    expect((await ask(url, "/tokens", { token: before.token })).status).toBe(401)
    expect((await ask(url, "/tokens", { token })).status).toBe(200)
  })

  it("is opened directly when its server was killed, whatever it left there", async () => {
    server.kill("SIGKILL")
    await server.ended
    expect(readdirSync(data)).toContain("server.json")
    const { code, stderr } = await command("jobs", "list", "--verbose")
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
  })
})

describe("a folder that another process has just opened", () => {
  it("is worth waiting for: commands and a server that are started together all come to it", async () => {
    const folder = folderWith({
      "approval.yaml": workflow("transform").replace("}]", ", config: { value: 1 } }]"),
    })
    const env = { UMBRA_DATA_DIR: join(folder.path, "data") }
    const serving = startUmbra(["serve", "--port", "0"], { env })
    try {
      const pushes = await Promise.all(
        [1, 2].map(() => umbra(["push", "approval.yaml"], { env, cwd: folder.path })),
      )
      expect(pushes.map(({ code, stderr }) => ({ code, stderr }))).toEqual([
        { code: 0, stderr: "" },
        { code: 0, stderr: "" },
      ])
      await serving.wrote(/listens on/)
      expect((await umbra(["jobs", "list"], { env })).stdout).toBe("No jobs.\n")
    } finally {
      serving.kill("SIGTERM")
      await serving.ended
      folder.remove()
    }
  })

  it("is reported at once when its holder serves it, runs a job, or has held it for long", async () => {
    const held = (more: object) =>
      new UmbraError("E503", "held", { details: { folder: files.path, pid: 1, ...more } })
    const since = new Date().toISOString()
    const tries = async (error: Error, turn: Turn = {}) => {
      const open = vi.fn(async () => Promise.reject(error))
      await expect(inTurn(open, turn)).rejects.toBe(error)
      return open.mock.calls.length
    }
    expect(await tries(held({ since, url: "http://127.0.0.1:7070" }))).toBe(1)
    expect(await tries(held({ since, url: null }))).toBe(1)
    expect(await tries(held({ since: "2026-11-15T12:00:00.000Z" }))).toBe(1)
    expect(await tries(new UmbraError("E504", "another"))).toBe(1)
    // Whoever is told to stop does not go on waiting.
    expect(await tries(held({ since }), { isOver: () => true })).toBe(1)
  })
})

describe("finding the server of a folder", () => {
  const served = (lock: object, file: object | null) => {
    const folder = folderWith({
      "lock.3": JSON.stringify({ ...ownIdentity(), since: "2026-11-15T12:00:00.000Z", ...lock }),
    })
    onTestFinished(folder.remove)
    if (file !== null) writeFileSync(join(folder.path, "server.json"), JSON.stringify(file), { mode: 0o600 })
    return folder.path
  }
  const url = "http://127.0.0.1:7070"

  it("gives address and token, on loopback for a server on all addresses", async () => {
    expect(await findServer(served({ url }, { url, token: "t" }))).toEqual({ url, token: "t" })
    const all = "http://0.0.0.0:7070"
    expect(await findServer(served({ url: all }, { url: all, token: "t" }))).toEqual({ url, token: "t" })
  })

  it("finds none when the holder is no server, is dead, elsewhere, has released it, or there is no holder", async () => {
    const file = { url, token: "t" }
    expect(await findServer(served({}, file))).toBeNull()
    expect(await findServer(served({ url: null }, file))).toBeNull()
    expect(await findServer(served({ url, started: "1" }, file))).toBeNull()
    expect(await findServer(served({ url, released: true }, file))).toBeNull()
    expect(await findServer(served({ url, namespace: "pid:[1]" }, file))).toBeNull()
    expect(await findServer(join(files.path, "nothing"))).toBeNull()
  })

  it("does not send the token to an address that only the lock names", async () => {
    expect(await findServer(served({ url: "http://127.0.0.1:6666" }, { url, token: "t" }))).toBeNull()
  })

  it("announces only in a lock of this process", async () => {
    const own = served({}, null)
    await announceServer(own, url)
    expect(await findHolder(own)).toMatchObject({ url, pid: process.pid })
    const other = served({ pid: 1 }, null)
    await announceServer(other, url)
    expect(readFileSync(join(other, "lock.3"), "utf8")).not.toContain("url")
  })
})
