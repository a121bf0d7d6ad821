import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import pg from "pg"
import { expect, it, onTestFinished, vi } from "vitest"
import { freshDatabase } from "../support/services.ts"
import { serve } from "../worker/server.ts"
import { collectLog, flow, handler, open, soon } from "./stage.ts"

const secret = "s3cr3t-7f81c2-do-not-keep"

it("a secret reaches the handler and nothing else: no table, no log, no event, no answer, also when a handler echoes it", async () => {
  const database = await freshDatabase()
  onTestFinished(database.drop)
  const { log, lines } = collectLog()
  const seen: string[] = []
  const umbra = await open({
    at: database.url,
    log,
    secrets: name => (name === "TOKEN" ? secret : undefined),
    handlers: [
      handler("echo", (config: { token: string }, ctx) => {
        seen.push(config.token)
        ctx.log.info({ token: config.token }, `using ${config.token}`)
        ctx.preview({ token: config.token })
        ctx.progress(50, config.token)
        return { echoed: config.token, inside: [`Bearer ${config.token}`] }
      }),
      handler("shout", (config: { token: string }) => {
        throw Object.assign(new Error(`refused: ${config.token}`), { retryable: true, details: config })
      }),
    ],
  })
  const config = { token: "{{ secrets.TOKEN }}" }
  const echo = await umbra.submit(flow([{ id: "a", handler: "echo", config }]))
  const shout = await umbra.submit(flow([{ id: "a", handler: "shout", config, retry: soon }]))
  const answers = [
    await echo.wait(),
    await shout.wait(),
    await echo.graph(),
    await shout.graph(),
    await umbra.events(echo.id),
    await umbra.events(shout.id),
  ]
  expect(seen).toEqual([secret])
  expect((answers[0] as { status: string }).status).toBe("COMPLETED")
  expect((answers[1] as { status: string }).status).toBe("FAILED")
  expect(JSON.stringify(answers)).not.toContain(secret)
  expect(JSON.stringify(lines)).not.toContain(secret)
  expect(await dump(database.url)).not.toContain(secret)
})

it("a secret is in no log line of a handler, no name, type or error of an artifact, and no name of a file", async () => {
  const database = await freshDatabase()
  onTestFinished(database.drop)
  const location = mkdtempSync(join(tmpdir(), "umbra-secrets-"))
  onTestFinished(() => rmSync(location, { recursive: true, force: true }))
  const server = await serve((_, response) => response.end("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "latin1"))
  onTestFinished(server.close)
  const { log, lines } = collectLog()
  const printed = vi.spyOn(console, "log").mockImplementation(() => {})
  onTestFinished(() => printed.mockRestore())
  const caught: string[] = []
  const umbra = await open({
    ...{ at: database.url, log, capturesConsole: true, artifacts: { location } },
    worker: { allowPrivateAddresses: ["127.0.0.1"] },
    secrets: name => (name === "TOKEN" ? secret : undefined),
    handlers: [
      handler("talk", async ({ token }: { token: string }, ctx) => {
        ctx.log.warn(
          { deep: [{ token }], error: new Error(token) },
          `first line\n${token}\n${encodeURIComponent(token)}`,
        )
        console.log("printed", { token }, Buffer.from(token).toString("base64"))
        const named = await ctx.artifacts.put(`of ${token}`, "x")
        const fails = [
          () => ctx.artifacts.put("x", "x", { type: `text/x-${token}` }),
          () => ctx.artifacts.put("x", { path: join(tmpdir(), token, "missing") }),
          () => ctx.artifacts.put("x", new URL(`ftp://127.0.0.1/${token}`)),
          () => ctx.artifacts.get(`sha256:${token}`),
          () => ctx.artifacts.get(named, { range: { first: 99 } }),
        ]
        for (const fail of fails)
          await fail().catch(error => {
            caught.push(error.code)
            ctx.log.error({ error }, String(error))
          })
        return { named }
      }),
      handler("missing", ({ token }: { token: string }, ctx) =>
        ctx.artifacts.put("x", { path: join(tmpdir(), token, "missing") }),
      ),
    ],
  })
  const config = { token: "{{ secrets.TOKEN }}" }
  const url = `${server.url}/{{ secrets.TOKEN }}`
  const retry = { max_attempts: 1 }
  const jobs = await Promise.all([
    umbra.submit(flow([{ id: "a", handler: "talk", config }])),
    umbra.submit(flow([{ id: "a", handler: "missing", config, retry }])),
    umbra.submit(flow([{ id: "a", handler: "store_media", config: { url } }])),
    umbra.submit(
      flow([{ id: "a", handler: "call_external_service", config: { url, save_as: "{{ secrets.TOKEN }}" } }]),
    ),
    umbra.submit(flow([{ id: "a", handler: "store_media", config: { url, max_bytes: 1 }, retry }])),
  ])
  const ended = await Promise.all(jobs.map(job => job.wait()))
  expect(ended.map(({ status, error }) => error?.code ?? status)).toEqual([
    ...["COMPLETED", "E601", "COMPLETED", "COMPLETED", expect.stringMatching(/^E/)],
  ])
  expect(caught).toEqual(["E309", "E601", "E309", "E309", "E809"])
  const logs = () => umbra.queries.logs.page(jobs[0]!.id, { limit: 1000, maxBytes: 1e6 } as never)
  await expect.poll(async () => JSON.stringify(await logs())).toContain("E809")
  const { artifacts } = await umbra.artifacts.list()
  expect(artifacts.map(({ name }) => name).toSorted()).toEqual(["[secret TOKEN]", "of [secret TOKEN]"])
  const files = readdirSync(location, { recursive: true })
  const shown = [ended, await logs(), artifacts, lines, files, await dump(database.url)]
  for (const form of [secret, encodeURIComponent(secret), Buffer.from(secret).toString("base64")])
    expect(JSON.stringify(shown)).not.toContain(form)
  expect(JSON.stringify(shown)).toContain("[secret TOKEN]")
})

/** Every row of every table that Umbra made, as text. */
async function dump(url: string): Promise<string> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    const tables = await client.query(
      "select format('%I.%I', table_schema, table_name) as name from information_schema.tables where table_schema = 'umbra'",
    )
    expect(tables.rows.length).toBeGreaterThan(3)
    let text = ""
    for (const { name } of tables.rows) {
      const { rows } = await client.query(`select t::text as row from ${name} as t`)
      text += rows.map(({ row }) => row).join("\n")
    }
    expect(text).toContain("secrets.TOKEN")
    return text
  } finally {
    await client.end()
  }
}
