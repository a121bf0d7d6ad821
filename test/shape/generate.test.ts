import { createHash } from "node:crypto"
import { mkdtemp, readdir, readFile, rm, stat, utimes } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { describe, expect, it, onTestFinished } from "vitest"
import { writeIfChanged } from "../../scripts/generate/files.ts"
import { sqlModule } from "../../scripts/generate/sql.ts"

const src = fileURLToPath(new URL("../../src", import.meta.url))

async function load(text: string) {
  const folder = await mkdtemp(join(tmpdir(), "umbra-generate-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const file = pathToFileURL(join(folder, "sql.generated.ts"))
  await writeIfChanged(file, text)
  return import(/* @vite-ignore */ file.href)
}

describe("statements", () => {
  // A parameter without a value is null: a field that is renamed in TypeScript only would silently select nothing.
  it("have no parameter whose name is nowhere in TypeScript", async () => {
    const files = await readdir(src, { recursive: true })
    const read = (ending: string) =>
      Promise.all(
        files
          .filter(file => file.endsWith(ending) && !file.endsWith("sql.generated.ts"))
          .map(async file => ({ file, text: await readFile(join(src, file), "utf8") })),
      )
    const names = new Set((await read(".ts")).flatMap(({ text }) => text.match(/\w+/g) ?? []))
    const unknown = (await read(".sql")).flatMap(({ file, text }) =>
      [...text.replaceAll(/--.*/g, "").matchAll(/@(\w+)/g)]
        .map(([, name]) => name!)
        .filter(name => !names.has(name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())))
        .map(name => `${file}: @${name}`),
    )
    expect(unknown).toEqual([])
  })
})

describe("the SQL module", () => {
  it("has each statement under its camelCased name, as written but for the head comment", async () => {
    const text = "-- Takes a partition.\n-- Fenced.\n\nselect '`${x}`\\n', \"q\" -- inside\n  from t\n"
    const { sql } = await load(sqlModule({ statements: [{ name: "take_over_2", text }], migrations: [] }))
    expect(sql).toEqual({ takeOver2: "select '`${x}`\\n', \"q\" -- inside\n  from t" })
  })

  it("has the query of a list of records instead of `records`, indented as the line", async () => {
    const text = "select n.j[1]\n  from records(@rows) as n (j)\n  where n.j[2] = 'x'\n"
    const { sql } = await load(sqlModule({ statements: [{ name: "put", text }], migrations: [] }))
    expect(sql.put).toBe(`select n.j[1]
  from (
    select string_to_array(record, chr(31)) as j
    from unnest(string_to_array($1::text, chr(30))) as u (record)
    offset 0
  ) as n
  where n.j[2] = 'x'`)
  })

  it("has a statement for each name in the sections of a file, with the lines of its sections", async () => {
    const text = `with a as (
  insert into t
  -- only in put_again
  on conflict do nothing
  -- end
),
-- not in put_short
b as (
  -- only in put_again
  select 1
  -- end
),
-- end
select 2
`
    const { sql } = await load(sqlModule({ statements: [{ name: "put", text }], migrations: [] }))
    expect(sql.put).toBe("with a as (\n  insert into t\n),\nb as (\n)\nselect 2")
    expect(sql.putAgain).toBe(
      "with a as (\n  insert into t\n  on conflict do nothing\n),\nb as (\n  select 1\n)\nselect 2",
    )
    expect(sql.putShort).toBe("with a as (\n  insert into t\n)\nselect 2")
  })

  it.each([
    ["-- end", "-- only in put", "without a section"],
    ["-- only in put", "select 2", 'a section without "-- end"'],
  ])("refuses a section that has no beginning or no end", (first, last, message) => {
    const text = `select 1\n${first}\n${last}\n`
    expect(() => sqlModule({ statements: [{ name: "put", text }], migrations: [] })).toThrow(message)
  })

  it("numbers named parameters in the order in which they appear, and has their names", async () => {
    const text = "select @job_id::text from t where a > @at and b = @job_id"
    const { parameters, sql } = await load(sqlModule({ statements: [{ name: "put", text }], migrations: [] }))
    expect(sql.put).toBe("select $1::text from t where a > $2 and b = $1")
    expect(parameters).toEqual({ put: ["jobId", "at"] })
    const mixed = { name: "put", text: "select @at, $1" }
    expect(() => sqlModule({ statements: [mixed], migrations: [] })).toThrow("with and without names")
  })

  it("has the migrations in the order of their numbers, whole, with the sha256 of the file", async () => {
    const first = { name: "2_more", text: "-- More.\nselect 2;\n" }
    const second = { name: "0001_journal", text: "-- First.\nselect 1;\n" }
    const { migrations } = await load(sqlModule({ statements: [], migrations: [first, second] }))
    const checksum = (text: string) => createHash("sha256").update(text).digest("hex")
    expect(migrations).toEqual([
      { id: 1, name: "journal", sql: second.text, checksum: checksum(second.text) },
      { id: 2, name: "more", sql: first.text, checksum: checksum(first.text) },
    ])
  })

  it.each([
    ["a number given twice", ["1_a", "01_b"], "expected a number above 1, found 1"],
    ["no number", ["journal"], "NUMBER_what_it_does.sql"],
  ])("refuses migrations with %s", (_, names, message) => {
    const migrations = names.map(name => ({ name, text: "select 1" }))
    expect(() => sqlModule({ statements: [], migrations })).toThrow(message)
  })

  it("refuses a statement that is only a comment, and a name that is not snake_case", () => {
    const withStatement = (name: string, text: string) => () =>
      sqlModule({ statements: [{ name, text }], migrations: [] })
    expect(withStatement("append", "-- later\n")).toThrow("statements/append.sql: contains no statement")
    expect(withStatement("takeOver", "select 1")).toThrow("name it in snake_case")
  })
})

it("a generated file is written only when its content changes", async () => {
  const folder = await mkdtemp(join(tmpdir(), "umbra-generate-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const file = pathToFileURL(join(folder, "deep", "x.json"))
  await writeIfChanged(file, "one")
  await utimes(file, 1, 1)
  await writeIfChanged(file, "one")
  expect((await stat(file)).mtimeMs).toBe(1000)
  await writeIfChanged(file, "two")
  expect(await readFile(file, "utf8")).toBe("two")
})
