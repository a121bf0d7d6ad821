import { describe, expect, it } from "vitest"
import { listFiles, read } from "./files.ts"
import { importsOf } from "./imports.ts"
import { forbiddenImports, rooms } from "./rooms.ts"

const sources = listFiles("src").filter(file => file.endsWith(".ts"))

describe("import boundaries", () => {
  it("every file of src imports only what its room may", () => {
    expect(sources.flatMap(file => forbiddenImports(file, read(file)))).toEqual([])
  })

  it("the table has no cycle: there is an order in which each room imports only rooms before it", () => {
    const placed = new Set<string>()
    const ready = () =>
      Object.keys(rooms).filter(
        name => !placed.has(name) && rooms[name]?.rooms.every(other => placed.has(other)),
      )
    for (let next = ready(); next.length > 0; next = ready()) for (const name of next) placed.add(name)
    expect(Object.keys(rooms).filter(name => !placed.has(name))).toEqual([])
  })

  it("core may import nothing at all", () => {
    expect(rooms.core).toEqual({ rooms: [], packages: [] })
  })
})

describe("the checker itself", () => {
  it("sees every form of import, and none in comments or strings", () => {
    const text = `
      import a from "./a.ts"
      import type { B } from "./b.ts"
      import "./c.ts"
      export { d } from "./d.ts"
      export * from "./e.ts"
      const f = await import("./f.ts")
      type G = import("./g.ts").G
      const h = await import(f.name)
      // import "./no.ts"
      const text = 'import "./no.ts"'
      export const own = 1`
    expect(importsOf("x.ts", text).map(({ specifier, line }) => `${line} ${specifier}`)).toEqual([
      "2 ./a.ts",
      "3 ./b.ts",
      "4 ./c.ts",
      "5 ./d.ts",
      "6 ./e.ts",
      "7 ./f.ts",
      "8 ./g.ts",
      "9 (computed)",
    ])
  })

  it.each([
    [
      "src/core/graph.ts",
      'import type { Plan } from "../definition/plan.ts"',
      "core may import no other room",
    ],
    ["src/core/graph.ts", 'import { hash } from "node:crypto"', "core may use no package"],
    ["src/core/deep/graph.ts", 'export * from "../../errors.ts"', "core may import no other room"],
    ["src/engine/owner/owner.ts", 'import pg from "pg"', "engine may use node:*"],
    ["src/template/parse/lexer.ts", 'const x = import("yaml")', "template may use no package"],
    ["src/journal/open.ts", 'import { x } from "../../test/support/x.ts"', "src imports nothing outside src"],
    ["src/definition/canonical.ts", 'import { readFile } from "node:fs/promises"', "definition may use"],
    ["src/helpers/x.ts", "", "not in the table"],
  ])("refuses %s: %s", (file, text, reason) => {
    expect(forbiddenImports(file, text)).toEqual([expect.stringContaining(reason)])
  })

  it.each([
    ["src/core/graph.ts", 'import type { Json } from "./json.ts"'],
    ["src/definition/plan.ts", 'import type { Graph } from "../core/plan.ts"'],
    ["src/journal/postgres/pool.ts", 'import pg from "pg/lib/index.js"'],
    ["src/cli/main.ts", 'import manifest from "../../package.json" with { type: "json" }'],
  ])("lets %s: %s", (file, text) => {
    expect(forbiddenImports(file, text)).toEqual([])
  })
})
