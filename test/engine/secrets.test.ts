import pg from "pg"
import { expect, it, onTestFinished } from "vitest"
import { freshDatabase } from "../support/services.ts"
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
