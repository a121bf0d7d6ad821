/** The ground the other tests stand on: what `npm test` says it started does answer. */
import { existsSync, readFileSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import pg from "pg"
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest"
import { ping } from "../../scripts/services/redis.ts"
import { capture, show } from "../../scripts/services/run.ts"
import { S3Client } from "../../src/artifacts/s3/client.ts"
import { readLocation } from "../../src/artifacts/s3/location.ts"
import { freshBucket } from "../artifacts/bucket.ts"
import { chromiumPath, freshDatabase, postgresUrl, redisUrl, s3Url } from "./services.ts"

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

describe("PostgreSQL", () => {
  it("answers, is 14 or newer, and is durable", async () => {
    const [row] = await query(
      postgresUrl(),
      "select current_setting('server_version_num')::int as version, current_setting('fsync') as fsync",
    )
    expect(row).toEqual({ version: expect.any(Number), fsync: "on" })
    expect(row?.version).toBeGreaterThanOrEqual(140_000)
  })

  it("gives each test a database of its own, gone after drop even with a connection open", async () => {
    const [one, other] = await Promise.all([freshDatabase(), freshDatabase()])
    await query(one.url, "create table only_here (id int)")
    expect(await query(other.url, "select to_regclass('only_here') as found")).toEqual([{ found: null }])
    const holder = new pg.Client({ connectionString: one.url })
    holder.on("error", () => {})
    await holder.connect()
    await Promise.all([one.drop(), other.drop()])
    const names = `'${one.name}', '${other.name}'`
    expect(await query(postgresUrl(), `select 1 from pg_database where datname in (${names})`)).toEqual([])
  })
})

describe("Redis", () => {
  it("answers PING", async () => {
    expect(await ping(Number(new URL(redisUrl()).port))).toBe("+PONG\r\n")
  })
})

describe("Swift", () => {
  it("speaks S3, and refuses a request whose signature is wrong, or that has none", async () => {
    const bucket = await freshBucket()
    onTestFinished(bucket.remove)
    expect(await bucket.keys()).toEqual([])
    const { host } = new URL(s3Url())
    expect((await fetch(`http://${host}/${bucket.location.split("/")[2]}?list-type=2`)).ok).toBe(false)
    const environment = { ...bucket.environment, AWS_SECRET_ACCESS_KEY: "another" }
    const stranger = new S3Client(readLocation(bucket.location, environment))
    onTestFinished(() => stranger.close())
    await expect(stranger.send({ method: "GET" })).rejects.toThrow("SignatureDoesNotMatch")
  })
})

describe("Chromium", () => {
  it("runs a page's script without a display", async () => {
    const profile = await mkdtemp(join(tmpdir(), "umbra-chromium-"))
    onTestFinished(() => rm(profile, { recursive: true, force: true, maxRetries: 10 }))
    const page = "<title>x</title><body><script>document.body.textContent = 6 * 7 + ' is drawn'</script>"
    // As root Chromium runs only without its sandbox; the page is ours.
    const flags = [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--no-first-run",
      `--user-data-dir=${profile}`,
    ]
    const url = `data:text/html,${encodeURIComponent(page)}`
    const dom = await capture(chromiumPath(), [...flags, "--dump-dom", url], { timeout: 80_000 })
    expect(dom).toContain("<body>42 is drawn</body>")
  })
})

describe("without npm test", () => {
  afterEach(() => vi.unstubAllEnvs())

  it("says how to run the test instead of skipping it", () => {
    vi.stubEnv("UMBRA_TEST_POSTGRES_URL", "")
    expect(postgresUrl).toThrow(/UMBRA_TEST_POSTGRES_URL is not set: run this test with "npm test -- FILE"/)
  })
})

describe("a command that is interrupted", () => {
  it("leaves no process behind, also none that ignores the signal", async () => {
    const folder = await mkdtemp(join(tmpdir(), "umbra-interrupted-"))
    onTestFinished(() => rm(folder, { recursive: true }))
    const file = join(folder, "pid")
    const stays = `process.on("SIGTERM", () => {}); fs.writeFileSync(${JSON.stringify(file)}, String(process.pid)); setInterval(() => {}, 1000)`
    const starts = `child_process.spawn(process.execPath, ["-e", ${JSON.stringify(stays)}]); setInterval(() => {}, 1000)`
    const controller = new AbortController()
    const shown = show(process.execPath, ["-e", starts], { signal: controller.signal })
    await expect.poll(() => existsSync(file) && readFileSync(file, "utf8")).toMatch(/^\d+$/)
    const pid = Number(readFileSync(file, "utf8"))
    controller.abort(new Error("interrupted"))
    expect(await shown).toBe(1)
    const isRunning = () => {
      try {
        return process.kill(pid, 0)
      } catch {
        return false
      }
    }
    await expect.poll(isRunning).toBe(false)
  })
})
