/** Pages that list what the code has: metrics, limits, exported names. */
import { readFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { artifactTable } from "../../src/artifacts/settings.ts"
import { defaultLimits } from "../../src/definition/limits.ts"
import { engineTable } from "../../src/engine/settings.ts"
import { errorTable } from "../../src/errors.ts"
import { pipelineTable } from "../../src/pipeline/settings.ts"
import { providerTable } from "../../src/provider/settings.ts"
import { serverTable } from "../../src/server/settings.ts"
import { defaultLimits as templateLimits } from "../../src/template/run.ts"
import { workerTable } from "../../src/worker/settings.ts"
import { openStage } from "../server/stage.ts"
import { parse, type SyntaxNode } from "../shape/syntax.ts"

const root = resolve(import.meta.dirname, "../..")
const read = (path: string) => readFileSync(join(root, path), "utf8")

describe("docs/operations/metrics.md", () => {
  const page = read("docs/operations/metrics.md")

  it("lists exactly the metrics of GET /metrics, each with its type", async () => {
    const stage = await openStage()
    onTestFinished(stage.close)
    const text: string = (await stage.ask("/metrics")).body
    const served = [...text.matchAll(/^# TYPE (umbra_\w+) (\w+)$/gm)].map(
      ([, name, type]) => `${name} ${type}`,
    )
    const rows = page.matchAll(/^\| `(umbra_\w+)` \| (\w+) \|.*\| \S.* \|$/gm)
    expect([...rows].map(([, name, type]) => `${name} ${type}`).sort()).toEqual(served.sort())
    const [, rules] = /^```yaml\n(.*?)^```$/ms.exec(page)!
    const known = [...text.matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name!)
    const used = [...rules!.matchAll(/\b(?:umbra|nodejs)_[a-z0-9_]+/g)].map(([name]) => name)
    expect(used.length).toBeGreaterThan(10)
    expect(used.filter(name => !known.includes(name.replace(/_(bucket|count|sum)$/, "")))).toEqual([])
  })
})

describe("docs/reference/limits.md", () => {
  const page = read("docs/reference/limits.md")
  const rows = [...page.matchAll(/^\| (.+?) \| (.+?) \| (?:`(\w+)`|–) \| (.+?) \|$/gm)].map(
    ([, limit, standard, setting, error]) => ({ limit: limit!, standard: standard!, setting, error: error! }),
  )
  const tables = [artifactTable, engineTable, workerTable, pipelineTable, providerTable, serverTable] as const
  const settings = new Map(
    tables.flatMap(table => Object.values(table).map(({ name, default: standard }) => [name, standard])),
  )
  const numberIn = (text: string) => Number(text.replaceAll(",", ""))

  it("has the default of each setting", () => {
    for (const { limit, standard, setting } of rows.filter(row => row.setting !== undefined)) {
      expect([...settings.keys()], limit).toContain(setting)
      expect(standard === "never" ? null : numberIn(standard), limit).toBe(settings.get(setting!))
    }
  })

  it("has every setting that docs/reference/configuration.md names with an error code", () => {
    const configuration = read("docs/reference/configuration.md")
    const bounded = [...configuration.matchAll(/^\| `(\w+)` \| .*\bE[1-7]\d\d\b.*$/gm)].map(
      ([, name]) => name!,
    )
    expect(bounded.length).toBeGreaterThan(15)
    expect(bounded.filter(name => !rows.some(({ setting }) => setting === name))).toEqual([])
  })

  it.each([
    ["Definitions", defaultLimits],
    ["Templates", templateLimits],
  ])("has the limits of %s, as the code has them", (title, limits) => {
    const section = page.split(/^## /m).find(text => text.startsWith(`${title}\n`))!
    const named = [...section.matchAll(/^\| `(\w+)`: .+? \| ([\d,]+) \|/gm)].map(([, name, value]) => [
      name,
      numberIn(value!),
    ])
    expect(Object.fromEntries(named)).toEqual(limits)
  })

  it("names codes that exist", () => {
    const codes = rows.flatMap(({ error }) => error.match(/E\d{3}/g) ?? [])
    expect(codes.length).toBeGreaterThan(30)
    expect(codes.filter(code => !(code in errorTable))).toEqual([])
  })
})

describe("docs/reference/api.md", () => {
  const page = read("docs/reference/api.md")
  const { exports } = JSON.parse(read("package.json")) as { exports: Record<string, { types?: string }> }
  const entries = Object.entries(exports).flatMap(([entry, { types }]) =>
    types === undefined ? [] : [entry],
  )

  /** The names that a module exports, those of `export *` included. */
  function exportedNames(file: string): string[] {
    const body = parse(file, read(file)).body as SyntaxNode[]
    const nameOf = (node: unknown) => (node as { name: string }).name
    return body.flatMap(node => {
      const source = node.source as { value: string } | null
      if (node.type === "ExportAllDeclaration") return exportedNames(join(dirname(file), source!.value))
      if (node.type !== "ExportNamedDeclaration") return []
      const declaration = node.declaration as SyntaxNode | null
      if (declaration === null)
        return (node.specifiers as SyntaxNode[]).map(({ exported }) => nameOf(exported))
      const declared = (declaration.declarations as SyntaxNode[] | undefined) ?? [declaration]
      return declared.map(({ id }) => nameOf(id))
    })
  }

  it.each(entries)("explains every name that the entry %s exports, once, and no other", entry => {
    const title = entry.replace(".", "umbra")
    const section = page.split(/^## /m).find(text => text.startsWith(`${title}\n`)) ?? ""
    const explained = [...section.matchAll(/^\| (`\w+`(?:, `\w+`)*) \| \S.* \|$/gm)].flatMap(([, names]) =>
      names!.replaceAll("`", "").split(", "),
    )
    const file = `src${entry.slice(1)}/index.ts`
    expect(explained.sort()).toEqual([...new Set(exportedNames(file))].sort())
  })

  it("has a section for each entry of the package", () => {
    expect(entries).toEqual([".", "./client", "./core", "./testing"])
  })
})
