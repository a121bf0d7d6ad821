import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll, describe, expect, it } from "vitest"
import { z } from "zod"
import { type Adapter, defineAdapter, EmittedMessage, emission } from "../../src/pipeline/adapter.ts"
import { discoverAdapters } from "../../src/pipeline/registry/discover.ts"
import { AdapterRegistry } from "../../src/pipeline/registry/registry.ts"

const root = mkdtempSync(join(tmpdir(), "umbra-discover-"))
afterAll(() => rmSync(root, { recursive: true }))
const source = new URL("../../src/pipeline/adapter.ts", import.meta.url).href

let count = 0

/** A project folder with these files; objects are written as JSON. */
function project(files: Readonly<Record<string, object | string>>): string {
  const folder = join(root, `project-${++count}`)
  for (const [name, content] of Object.entries(files)) {
    const path = join(folder, name)
    mkdirSync(dirname(path), { recursive: true })
    const text = typeof content === "string" ? content.replaceAll("UMBRA", source) : JSON.stringify(content)
    writeFileSync(path, text)
  }
  return folder
}

const one = (type: string) => `export const a = { type: "${type}", process: message => message.body }`
const declares = (adapters: unknown = "./adapters.mjs") => ({ umbra: { adapters } })

/** A project that depends on these packages, each a list of files below its folder. */
function depending(packages: Readonly<Record<string, Readonly<Record<string, object | string>>>>): string {
  const dependencies = Object.fromEntries(Object.keys(packages).map(name => [name, "1"]))
  const files = Object.entries(packages).flatMap(([name, own]) =>
    Object.entries(own).map(([file, content]) => [`node_modules/${name}/${file}`, content] as const),
  )
  return project({ "package.json": { dependencies }, ...Object.fromEntries(files) })
}

async function refusalOf(folder: string): Promise<Error> {
  const error = await discoverAdapters(folder).catch(error => error)
  expect(error).toMatchObject({ code: "E720" })
  return error
}

describe("P6 adapters of installed packages", () => {
  it("are found by name and declaration, scoped ones too, in TypeScript and JavaScript", async () => {
    const folder = depending({
      "umbra-shop": {
        "package.json": declares(),
        "adapters.mjs": `import { defineAdapter } from "UMBRA"
          export const order = defineAdapter({ type: "shop.order", process: () => {} })
          export default [order, defineAdapter({ type: "shop.stock", process: () => {} })]`,
      },
      "@acme/umbra-mail": {
        "package.json": declares(["./one.ts", "./lib/two.cjs"]),
        "one.ts": `export const mail = { type: "mail" as string, process: (): number => 1 }`,
        "lib/two.cjs": `exports.letter = { type: "letter", process: () => 2 }`,
      },
      "umbra-plain": { "package.json": {}, "index.js": "throw new Error('never loaded')" },
      "umbra-other": { "package.json": { umbra: { theme: "dark" } } },
      left: { "package.json": declares() },
    })
    const found = await discoverAdapters(join(folder, "node_modules", "..", "."))
    expect(found.map(({ type, package: name }) => [type, name])).toEqual([
      ["mail", "@acme/umbra-mail"],
      ["letter", "@acme/umbra-mail"],
      ["shop.order", "umbra-shop"],
      ["shop.stock", "umbra-shop"],
    ])
  })

  it("are those that the nearest package.json names, wherever above they are installed", async () => {
    const folder = project({
      "package.json": { dependencies: { "umbra-top": "1" } },
      "node_modules/umbra-top/package.json": declares(),
      "node_modules/umbra-top/adapters.mjs": one("top"),
      "node_modules/umbra-hoisted/package.json": declares(),
      "node_modules/umbra-hoisted/adapters.mjs": one("hoisted"),
      "node_modules/umbra-transitive/package.json": declares(),
      "node_modules/umbra-transitive/adapters.mjs": "throw new Error('nobody asked for it')",
      "packages/a/package.json": { devDependencies: { "umbra-hoisted": "1", "umbra-absent": "1" } },
      "packages/a/src/x.txt": "",
    })
    const types = async (path: string) => (await discoverAdapters(join(folder, path))).map(({ type }) => type)
    expect(await types("packages/a/src")).toEqual(["hoisted"])
    expect(await types(".")).toEqual(["top"])
    expect(await types("packages")).toEqual(["top"])
  })

  it.each<[string, object, Readonly<Record<string, string>>, RegExp]>([
    ["a module that is not there", declares("./no.js"), {}, /\.\/no\.js does not exist in the package/],
    ["a module outside", declares("../../x.js"), {}, /outside the package/],
    ["no path", declares(7), {}, /write the path of a module/],
    ["an empty list", declares([]), {}, /write the path of a module/],
    ["umbra as a text", { umbra: "./a.js" }, {}, /write the path of a module/],
    [
      "a module that throws",
      declares(),
      { "adapters.mjs": "throw new Error('oh')" },
      /cannot be loaded: oh\. Reinstall/,
    ],
    ["no adapter", declares(), { "adapters.mjs": "export const x = 1" }, /exports no adapter/],
    [
      "an adapter without process",
      declares(),
      { "adapters.mjs": `export const x = { type: "x", process: 1 }` },
      /adapter "x" needs a function process/,
    ],
    [
      "a wrong type",
      declares(),
      { "adapters.mjs": `export const x = { type: "a b", process() {} }` },
      /type must be a name .* not "a b"/,
    ],
    [
      "a config that is no schema",
      declares(),
      { "adapters.mjs": `export const x = { type: "x", config: { a: 1 }, process() {} }` },
      /config of adapter "x" must be a zod schema/,
    ],
    [
      "a schema that throws",
      declares(),
      {
        "adapters.mjs": `const config = { "~standard": { version: 1, vendor: "v", validate() { throw new Error("bad") } } }
        export const x = { type: "x", config, process() {} }`,
      },
      /config schema of adapter "x" cannot check \{\}: bad/,
    ],
    [
      "one type twice",
      declares(),
      {
        "adapters.mjs":
          "export const x = { type: 'x', process() {} }; export const y = { type: 'x', process() {} }",
      },
      /two adapters of type "x"/,
    ],
  ])(
    "%s is an error that names the package and where it is declared",
    async (_, manifest, files, message) => {
      const error = await refusalOf(depending({ "umbra-bad": { "package.json": manifest, ...files } }))
      expect(error.message).toMatch(message)
      expect(error.message).toMatch(
        /The adapters of umbra-bad cannot be used \(.*umbra-bad.package\.json, "umbra\.adapters"\)/,
      )
    },
  )

  it("a dependency that is not installed, or whose package.json is broken, is named", async () => {
    const absent = project({ "package.json": { dependencies: { "umbra-absent": "1" } } })
    expect((await refusalOf(absent)).message).toMatch(/umbra-absent is not installed.*Run npm install/)
    const broken = depending({ "umbra-broken": { "package.json": "{" } })
    expect((await refusalOf(broken)).message).toMatch(/umbra-broken.package\.json cannot be read/)
  })
})

describe("the registry", () => {
  const made = (type: string, more: object = {}): Adapter => ({ type, process: () => null, ...more })

  it("by hand the later counts, over packages and the built-in ones too, whenever they come", () => {
    const registry = new AdapterRegistry([made("log"), made("split")])
    const [first, second, log] = [made("x"), made("x"), made("log")]
    registry.add(first, log)
    registry.addFound([made("x", { package: "umbra-x" }), made("y", { package: "umbra-x" })])
    registry.add(second)
    expect(registry.get("x")?.process).toBe(second.process)
    expect(registry.get("log")?.process).toBe(log.process)
    expect(registry.get("y")?.package).toBe("umbra-x")
    expect(registry.get("none")).toBeUndefined()
    expect(registry.types()).toEqual(["log", "split", "x", "y"])
  })

  it("two packages with one type, or one with a built-in type: an error with both names, and nothing is added", () => {
    const registry = new AdapterRegistry([made("log")])
    registry.addFound([made("x", { package: "umbra-one" })])
    const both = [made("z", { package: "umbra-two" }), made("x", { package: "umbra-two" })]
    expect(() => registry.addFound(both)).toThrow(/Both umbra-one and umbra-two have an adapter of type "x"/)
    expect(registry.types()).toEqual(["log", "x"])
    expect(() => registry.addFound([made("log", { package: "@a/umbra-two" })])).toThrow(
      /@a\/umbra-two has an adapter of type "log", which is built in/,
    )
  })

  it("refuses what is no adapter", () => {
    expect(() => new AdapterRegistry().add({ type: "x" } as never)).toThrow(/needs a function process/)
  })
})

describe("defineAdapter", () => {
  it("keeps the types of its config", () => {
    const adapter = defineAdapter({
      type: "double",
      config: z.strictObject({ factor: z.number().default(2) }),
      process: (message, { config }) => Number(message.body) * config.factor,
    })
    const type: "double" = adapter.type
    const given: z.input<typeof adapter.config> = { factor: 3 }
    const general: Adapter = adapter
    expect([type, given, Object.isFrozen(general)]).toEqual(["double", { factor: 3 }, true])
  })

  it("an emission of another copy of the package is one", () => {
    const other = { body: 1, kind: "link", [Symbol.for("umbra.emission")]: true }
    expect(other instanceof EmittedMessage).toBe(true)
    expect(emission(1)).toMatchObject({ body: 1, kind: "default" })
    expect({ body: 1, kind: "x" } instanceof EmittedMessage).toBe(false)
  })
})
