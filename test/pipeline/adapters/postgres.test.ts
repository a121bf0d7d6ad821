import { type AddressInfo, createServer } from "node:net"
import pg from "pg"
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest"
import type { Json } from "../../../src/core/json.ts"
import { type FreshDatabase, freshDatabase } from "../../support/services.ts"
import { builtIn, configOf, drain, run } from "../adapter-run.ts"

let database: FreshDatabase
let client: pg.Client

beforeAll(async () => {
  database = await freshDatabase()
  client = new pg.Client({ connectionString: database.url })
  await client.connect()
  await client.query(`
    create table item (id bigint primary key, name text not null, at timestamptz, tags text[]);
    insert into item select n, 'item ' || n, timestamptz '2026-01-01 00:00:00.123456Z' + n * interval '1 s', array['a','ä']
      from generate_series(1, 2500) as n;
    create table pair (a text, b int, big text, primary key (a, b));
    insert into pair select chr(97 + n % 3), n, repeat('x', 1000) from generate_series(1, 60) as n;
    create table sunk (id int primary key, name text default 'none', more jsonb, changed int not null default 0);
    create table noted (origin text unique, n int)`)
})

afterAll(async () => {
  await client.end()
  await database.drop()
})

const source = builtIn("postgres_source")
const read = (config: object) => drain(source, () => ({ url: database.url, ...config }))

describe("postgres_source", () => {
  it("emits every row once, in the order of its key, in steps", async () => {
    const query = "select * from item where id > $1 -- all but ten\n;"
    const { bodies, steps } = await read({ query, params: [10], key: "id" })
    expect(bodies.map(body => (body as { id: number }).id)).toEqual(
      Array.from({ length: 2490 }, (_, i) => i + 11),
    )
    expect(steps).toBe(3)
    expect(bodies[0]).toEqual({
      id: 11,
      name: "item 11",
      at: "2026-01-01T00:00:11.123456+00:00",
      tags: ["a", "ä"],
    })
  })

  it("by several columns, and by a time with microseconds", async () => {
    const pairs = await read({ query: "select a, b from pair", key: ["a", "b"], rows_per_step: 7 })
    const expected = (await client.query("select a, b from pair order by a, b")).rows
    expect(pairs.bodies).toEqual(expected)
    const times = await read({ query: "select at, id from item", key: "at", rows_per_step: 600 })
    expect(times.bodies).toHaveLength(2500)
  })

  it("a step is bounded by its bytes, and holds one row at least", async () => {
    const sizes: number[] = []
    const config = { url: database.url, query: "table pair", key: ["a", "b"], bytes_per_step: 5000 }
    await drain(source, () => config, { seen: ({ emitted }) => sizes.push(emitted.length) })
    expect(Math.max(...sizes)).toBe(5)
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(60)
    expect((await read({ query: "table pair", key: ["a", "b"], bytes_per_step: 1 })).steps).toBe(60)
  })

  it("no rows are no messages; a source changes nothing", async () => {
    const none = await run(source, {
      config: { url: database.url, query: "select 1 as a where false", key: "a" },
    })
    expect([none.emitted, none.continued]).toEqual([[], []])
    const query = "with gone as (delete from item returning id) select id from gone"
    await expect(read({ query, key: "id" })).rejects.toMatchObject({ code: "E411", retryable: false })
  })

  it("sends nothing of its process to the server that a pipeline names: no PGPASSWORD, no PGUSER", async () => {
    vi.stubEnv("PGPASSWORD", "password-of-the-operator")
    vi.stubEnv("PGUSER", "operator")
    vi.stubEnv("PGOPTIONS", "-c search_path=operator")
    onTestFinished(() => void vi.unstubAllEnvs())
    const received: Buffer[] = []
    const server = createServer(socket => {
      socket.on("error", () => {})
      socket.on("data", bytes => {
        received.push(bytes)
        // The first is the startup message: a clear text password is asked for. The second has it.
        if (received.length === 1) socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]))
        else socket.destroy()
      })
    })
    await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
    onTestFinished(() => void server.close())
    const url = `postgresql://127.0.0.1:${(server.address() as AddressInfo).port}/db`
    await expect(read({ url, query: "select 1 as a", key: "a" })).rejects.toMatchObject({ code: "E408" })
    expect(received.length).toBeGreaterThan(1)
    expect(Buffer.concat(received).toString("latin1")).not.toContain("operator")
  })

  it("reads no file that a pipeline's url names", async () => {
    const config = { query: "select 1 as a", key: "a" }
    for (const name of ["sslkey", "sslcert", "sslrootcert", "options", "stream"]) {
      const failed = read({ ...config, url: `${database.url}?${name}=/etc/passwd` })
      await expect(failed).rejects.toMatchObject({ code: "E403", retryable: false })
    }
  })

  it("says what is wrong: the statement, the place, the time; and never the password", async () => {
    await expect(read({ query: "select nothing from item", key: "id" })).rejects.toThrow(
      /PostgreSQL at .*: column "nothing" does not exist \(SQLSTATE 42703\)/,
    )
    const slow = { query: "select 1 as a, pg_sleep(5)", key: "a", timeout_seconds: 0.1 }
    // E408: on a busy machine there was no connection within that time.
    const failure = () => read(slow).catch(error => error)
    await expect.poll(failure).toMatchObject({ code: "E410", retryable: true })
    const url = "postgresql://ada:very-secret@127.0.0.1:1/db"
    const error = await read({ url, query: "select 1 as a", key: "a" }).catch(error => error)
    expect(error).toMatchObject({ code: "E408", retryable: true })
    expect(error.message).toMatch(/PostgreSQL at 127.0.0.1:1\/db did not answer/)
    expect(error.message).not.toContain("very-secret")
    const guarded = builtIn("postgres_source", { allowPrivateAddresses: false })
    for (const place of ["127.0.0.1", "localhost", "[::1]"]) {
      const config = { url: `postgresql://u:p@${place}:5432/db`, query: "select 1 as a", key: "a" }
      await expect(run(guarded, { config }), place).rejects.toMatchObject({ code: "E412", retryable: false })
    }
    const socket = { url: "postgresql:///db?host=/nowhere", query: "select 1 as a", key: "a" }
    await expect(run(guarded, { config: socket })).rejects.toMatchObject({ code: "E412" })
  })

  it("an abort ends a statement that runs", async () => {
    const controller = new AbortController()
    const config = { url: database.url, query: "select 1 as a, pg_sleep(20)", key: "a" }
    const running = run(source, { config, signal: controller.signal })
    const sleeping =
      "select 1 from pg_stat_activity where query like '%pg_sleep(20)%' and pid <> pg_backend_pid()"
    await expect.poll(async () => (await client.query(sleeping)).rowCount).toBe(1)
    controller.abort(new Error("enough"))
    await expect(running).rejects.toThrow("enough")
  })
})

describe("postgres_sink", () => {
  const sink = builtIn("postgres_sink")
  const store = (body: Json, config: object, more = {}) =>
    run(sink, { body, config: { url: database.url, ...config }, ...more })
  const upsert = { table: "sunk", on_conflict: { columns: ["id"] } }
  const rows = async (query: string) => (await client.query(query)).rows

  it("stores a mapping or a list; a column left out has its default; the last of two with one key counts", async () => {
    const list = [{ id: 2, name: "b" }, { id: 3 }, { id: 2, name: "bb", more: [1, { a: null }] }]
    expect((await store({ id: 1, more: { x: "ä" } }, upsert)).answer).toEqual({ id: 1, more: { x: "ä" } })
    await store(list, { ...upsert, table: "public.sunk" })
    await store(list, upsert)
    expect(await rows("select id, name, more from sunk order by id")).toEqual([
      { id: 1, name: "none", more: { x: "ä" } },
      { id: 2, name: "bb", more: [1, { a: null }] },
      { id: 3, name: "none", more: null },
    ])
    await store({ id: 1, name: "never" }, { table: "sunk", on_conflict: { columns: ["id"], do: "nothing" } })
    expect(await rows("select name from sunk where id = 1")).toEqual([{ name: "none" }])
  })

  it("delivered twice, rows without a key of their own are there once", async () => {
    const config = { table: "noted", idempotency_column: "origin" }
    for (const seq of [1, 2, 1, 2]) await store([{ n: 1 }, { n: 1 }], config, { seq })
    expect(await rows("select n, count(*)::int from noted group by n")).toEqual([{ n: 1, count: 4 }])
    const gathered = { gathered: ["route:1", "route:2"] }
    await expect(store([{ n: 1 }], config, gathered)).rejects.toMatchObject({ code: "E725" })
    await store([{ id: 50 }], upsert, gathered)
  })

  it("a message is stored whole or not at all, and says why", async () => {
    const failed = store(
      [
        { id: 70, name: "x" },
        { id: 71, changed: null },
      ],
      upsert,
    )
    await expect(failed).rejects.toMatchObject({
      code: "E411",
      retryable: false,
      details: { sql_state: "23502" },
    })
    expect(await rows("select 1 from sunk where id >= 70")).toEqual([])
    await expect(store({ nope: 1 }, upsert)).rejects.toThrow(/column "nope" .*does not exist/)
    await expect(store("text", upsert)).rejects.toThrow(/needs a mapping from columns to values/)
    await expect(store([], upsert)).resolves.toMatchObject({ answer: [] })
  })

  it("names cannot carry SQL", async () => {
    await expect(store({ 'id") values (1); drop table sunk; --': 1 }, upsert)).rejects.toMatchObject({
      code: "E411",
    })
    await expect(store({ id: 1 }, { ...upsert, table: 'sunk"; drop table sunk; --' })).rejects.toThrow(
      /exist/,
    )
    expect(await rows("select count(*)::int > 0 as is_there from sunk")).toEqual([{ is_there: true }])
  })

  it("needs a way to know what it has stored", () => {
    const url = database.url
    expect(() => configOf(sink, { url, table: "t" })).toThrow(/delivered twice is stored twice/)
    expect(() => configOf(sink, { url: "mysql://x", ...upsert })).toThrow(/postgresql:\/\//)
  })
})
