/** `umbra serve` as a real process: started, asked, stopped and killed. */
import { once } from "node:events"
import { type AddressInfo, connect, createServer } from "node:net"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { openJournal } from "../../src/journal/open.ts"
import { umbra } from "../cli/same-process.ts"
import { folderWith, startUmbra } from "../cli/umbra.ts"
import { newKey, openIssuer, tokenOf } from "./issuer.ts"
import { serve, storeFlags, storeOf } from "./served.ts"
import { ask, hello } from "./stage.ts"

const handlers = `export const slow = { name: "slow", run: () => new Promise(done => setTimeout(done, 60_000)) }\n`

const post = (url: string, path: string, body: unknown, token?: string) =>
  ask(url, path, { method: "POST", body, ...(token === undefined ? {} : { token }) })

describe("umbra serve", () => {
  it.each(["SQLite", "PostgreSQL"])(
    "X1 killed at any time on %s, every job that was answered 2xx exists and is finished by the next process",
    async kind => {
      const store = await storeOf(kind)
      const first = await serve(store)
      await post(first.url, "/workflows", hello)
      const accepted: string[] = []
      let isKilled = false
      const lane = async () => {
        while (!isKilled) {
          const answer = await post(first.url, "/jobs", { workflow: "hello", input: { name: "x" } }).catch(
            () => null,
          )
          if (answer === null) return
          expect(answer.status).toBe(201)
          accepted.push(answer.body.job_id)
          if (accepted.length === 150) {
            isKilled = true
            first.process.kill("SIGKILL")
          }
        }
      }
      await Promise.all(Array.from({ length: 20 }, lane))
      await first.process.ended
      expect(accepted.length).toBeGreaterThanOrEqual(150)

      const second = await serve(store)
      for (const id of accepted)
        expect((await ask(second.url, `/jobs/${id}?wait=30`, {})).body, id).toMatchObject({
          status: "COMPLETED",
        })
      second.process.kill("SIGTERM")
      expect(await second.process.ended).toMatchObject({ code: 0 })
    },
    240_000,
  )

  it("S2 after SIGTERM it answers waiting requests, hands over what runs, and ends within 10 s", async () => {
    const store = await storeOf("SQLite")
    const files = folderWith({ "handlers.mjs": handlers })
    onTestFinished(files.remove)
    const flags = ["--handlers", join(files.path, "handlers.mjs")]
    const { process, url } = await serve(store, ...flags, "--set", "drain_seconds=1")
    await post(url, "/workflows", { name: "slow", nodes: [{ id: "s", handler: "slow" }] })
    const { body: job } = await post(url, "/jobs", { workflow: "slow" })
    const waiting = ask(url, `/jobs/${job.job_id}?wait=60`, {})
    await expect
      .poll(async () => (await ask(url, `/jobs/${job.job_id}/graph`, {})).body.workflow_status)
      .toBe("RUNNING")
    process.kill("SIGTERM")
    expect(await waiting).toMatchObject({ status: 200, body: { job_id: job.job_id, finished_at: null } })
    // After 4.5 s, of which 1 s is for the drain, the process itself exits with another code.
    expect(await process.ended).toMatchObject({ code: 0 })
    const next = await serve(store, ...flags)
    expect((await ask(next.url, `/jobs/${job.job_id}`, {})).body).toMatchObject({ finished_at: null })
  })

  it("S2 after SIGTERM while it opens its store, it hands over what it has taken by then", async () => {
    const store = await storeOf("PostgreSQL")
    const door = await doorTo(store.location)
    const opening = startUmbra(["serve", "--port", "0", "--database-url", door.url])
    onTestFinished(() => opening.kill("SIGKILL"))
    await door.came
    opening.kill("SIGTERM")
    await opening.wrote(/SIGTERM, stopping/)
    door.open()
    expect(await opening.ended).toMatchObject({ code: 0 })
    const journal = await openJournal(store.location)
    onTestFinished(() => journal.close())
    const partitions = await journal.readPartitions()
    expect(partitions.filter(({ owner }) => owner !== null)).toEqual([])
  })

  it("S3 says that it is open without tokens, is closed with one, and listens to the world only then", async () => {
    const store = await storeOf("PostgreSQL")
    const world = await umbra(["serve", "--host", "0.0.0.0", "--port", "0", ...storeFlags(store)])
    expect(world.code).toBe(2)
    expect(world.stderr).toContain("E637")
    const open = await serve(store)
    open.process.kill("SIGTERM")
    expect((await open.process.ended).stdout).toContain('as owner "local"')

    const made = await umbra([
      "token",
      "create",
      "--owner",
      "ada",
      "--scope",
      "read,manage",
      ...storeFlags(store),
    ])
    expect(made.code).toBe(0)
    const token = made.stdout.trim()
    const { url } = await serve(store, "--host", "0.0.0.0")
    expect((await ask(url, "/jobs", {})).status).toBe(401)
    expect((await post(url, "/workflows", hello, token)).status).toBe(201)
    expect((await post(url, "/jobs", { workflow: "hello" }, token)).status).toBe(403)

    const listed = await umbra(["token", "list", "--json", ...storeFlags(store)])
    expect(listed.stdout).not.toContain(token)
    const [row] = JSON.parse(listed.stdout).tokens
    expect(row).toMatchObject({ owner: "ada", scopes: ["read", "manage"], last_four: token.slice(-4) })
    expect((await umbra(["token", "revoke", row.id, ...storeFlags(store)])).code).toBe(0)
    expect((await ask(url, "/jobs", { token })).status).toBe(401)
    const again = await umbra(["token", "list", ...storeFlags(store)])
    expect(again.stdout).toMatch(/ada {2}read,manage {2}\S+ {2}revoked/)
  })

  it("S3 takes JWTs by settings alone, then listens to the world, and says whose they are", async () => {
    const store = await storeOf("PostgreSQL")
    const issuer = await openIssuer()
    onTestFinished(() => issuer.close())
    const key = await newKey("k")
    issuer.publish(key)
    const { jwtIssuer, jwtAudience, jwksUrl } = issuer.settings
    const part = ["--set", `jwt_issuer=${jwtIssuer}`, "--set", `jwks_url=${jwksUrl}`]
    const lacking = await umbra(["serve", "--host", "0.0.0.0", "--port", "0", ...storeFlags(store), ...part])
    expect(lacking).toMatchObject({ code: 2, stderr: expect.stringContaining("jwt_audience") })
    const { process, url } = await serve(
      store,
      "--host",
      "0.0.0.0",
      ...part,
      "--set",
      `jwt_audience=${jwtAudience}`,
    )
    const token = await tokenOf(key)
    expect((await ask(url, "/jobs", {})).status).toBe(401)
    expect((await ask(url, "/jobs", { token })).status).toBe(200)
    process.kill("SIGTERM")
    expect((await process.ended).stdout).toContain(`a JWT of ${jwtIssuer}`)
  })

  it.each([
    [["token", "create", "--owner", "a", "--scope", "root"], "There is no scope"],
    [["token", "create", "--owner", "a"], "--scope"],
    [["serve", "--port", "70000"], "It must be a port"],
  ])("refuses %j", async (parameters, message) => {
    const { code, stderr } = await umbra(parameters)
    expect(code).toBe(2)
    expect(stderr).toContain(message)
  })

  it("reports that there is no such token", async () => {
    const store = await storeOf("SQLite")
    const { code, stderr } = await umbra(["token", "revoke", "abc", ...storeFlags(store)])
    expect(code).toBe(1)
    expect(stderr).toContain("umbra token list")
  })
})

/** A way to a database on which nothing passes until it is opened. */
async function doorTo(location: string) {
  const target = new URL(location)
  let open = () => {}
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  const door = createServer(near => {
    near.on("error", () => {})
    void opened.then(() => {
      const far = connect(Number(target.port), target.hostname)
      far.on("error", () => {})
      near.pipe(far).pipe(near)
    })
  })
  door.listen(0, "127.0.0.1")
  await once(door, "listening")
  onTestFinished(() => void door.close())
  const came = once(door, "connection")
  const url = new URL(location)
  url.port = String((door.address() as AddressInfo).port)
  return { url: url.href, came, open }
}
