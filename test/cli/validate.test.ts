import { mkdirSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { afterAll, describe, expect, it } from "vitest"
import { umbra } from "./same-process.ts"
import { folderWith } from "./umbra.ts"

const good = `name: greet
input:
  type: object
  properties: { who: { type: string } }
nodes:
  - id: hello
    handler: transform
    config: { value: "Hello {{ input.who }}" }
  - id: loud
    handler: transform
    config: { value: "{{ hello | upper }}" }
`
const bad = `name: broken
nodes:
  - id: a
    handler: transfrom
    config: { value: 1 }
  - id: b
    handler: sleep
    config: { seconds: -1 }
    dependencies: [missing]
  - id: c
    handler: transform
    config:
      value: "{{ nobody.home }}"
`
const own = `name: own
nodes:
  - id: a
    handler: shout
    config: { word: "x" }
  - id: b
    handler: whisper
`
const handlers = `
interface Config { readonly word: string }
const run = async (config: Config) => ({ text: config.word.toUpperCase() })
export const shout = { name: "shout", run }
export default [{ name: "whisper", run }, shout]
export const version: number = 1
`

const { path: cwd, remove } = folderWith({
  "good.yaml": good,
  "good.json": JSON.stringify({
    name: "j",
    nodes: [{ id: "a", handler: "transform", config: { value: 1 } }],
  }),
  "bad.yaml": bad,
  "own.yaml": own,
  "handlers.ts": handlers,
  "nothing.mjs": "export const x = 1\n",
  "throws.mjs": "throw new Error('no database')\n",
  "syntax.mjs": "export const = 1\n",
  "clash.mjs": "export const sleep = { name: 'sleep', run() {} }\n",
  "timer.mjs": "setInterval(() => {}, 1000)\nexport const tick = { name: 'tick', run() {} }\n",
  "twice.mjs": "export const a = { name: 'a', run() {} }\nexport const b = { name: 'a', run() {} }\n",
  "empty.yaml": " \n",
  "latin1.yaml": Buffer.from([0x6e, 0x61, 0xef, 0x76, 0x65]),
  "wide.yaml":
    'name: wide\nnodes:\n  - { id: a, handler: transform, config: { value: "日本\u001b[31m {{ oops }}" } }\n',
  "long.json": JSON.stringify({
    name: "long",
    nodes: [
      ...Array.from({ length: 200 }, (_, i) => ({ id: `x${i}`, handler: "transform", config: { value: 1 } })),
      { id: "y", handler: "nope" },
    ],
  }),
})
mkdirSync(join(cwd, "folder"))
symlinkSync("loop.yaml", join(cwd, "loop.yaml"))
afterAll(remove)

interface Answer {
  readonly valid: boolean
  readonly errors: {
    code: string
    message: string
    path: string
    line: number | null
    column: number | null
  }[]
}
async function asJson(...parameters: string[]): Promise<Answer & { exit: number | null }> {
  const { stdout, stderr, code } = await umbra(["validate", "--json", ...parameters], { cwd })
  expect(stderr).toBe("")
  return { ...(JSON.parse(stdout) as Answer), exit: code }
}

describe("umbra validate", () => {
  it("says that a valid workflow is valid and what is in it", async () => {
    expect(await umbra(["validate", "good.yaml"], { cwd })).toEqual({
      code: 0,
      stdout: "✓ good.yaml is valid (greet, 2 nodes, 1 edge)\n",
      stderr: "",
    })
    expect(await asJson("good.json")).toEqual({ valid: true, errors: [], exit: 0 })
  })

  it("reads standard input as -", async () => {
    const { code, stdout } = await umbra(["validate", "-"], { stdin: good })
    expect({ code, stdout }).toEqual({ code: 0, stdout: "✓ <stdin> is valid (greet, 2 nodes, 1 edge)\n" })
  })

  it("calls standard input so also when there is nothing in it", async () => {
    const { stdout } = await umbra(["validate", "-"], { stdin: "" })
    expect(stdout).toContain("✗ <stdin>: 1 problem\n")
  })

  it("J4 shows the line that it names: a lone carriage return begins none", async () => {
    const stdin = '{"name":"x",\r"nodes":[\r{"id":"a","handler":"transfrom"}]}'
    const { stdout } = await umbra(["validate", "-"], { stdin })
    const [place, , source = "", caret = ""] = stdout.split("\n")
    expect(place).toMatch(/^<stdin>:1:44 /)
    expect(caret.indexOf("^")).toBe(source.indexOf('"transfrom"'))
  })

  it("J4 shows every problem in the order of the document, with source line, caret and a count", async () => {
    const { code, stdout } = await umbra(["validate", "bad.yaml"], { cwd })
    expect(code).toBe(2)
    const codes = [...stdout.matchAll(/^bad\.yaml:(\d+):(\d+) error (E\d+) {2}at (.+)$/gm)].map(m =>
      m.slice(1),
    )
    expect(codes).toEqual([
      ["4", "14", "E103", "nodes[0].handler"],
      ["8", "24", "E102", "nodes[1].config.seconds"],
      ["9", "20", "E105", "nodes[1].dependencies[0]"],
      ["13", "18", "E111", "nodes[2].config.value"],
    ])
    const lines = stdout.split("\n")
    const frame = lines.findIndex(line => line.includes("4 │     handler: transfrom"))
    expect(lines[frame + 1]?.indexOf("^")).toBe(lines[frame]?.indexOf("transfrom"))
    expect(stdout).toContain("transform") // did you mean
    expect(lines.slice(-3)).toEqual([
      "✗ bad.yaml: 4 problems",
      "Load your own handlers with --handlers MODULE.",
      "",
    ])
  })

  it("shows a hundred problems to a person, and says where the rest are", async () => {
    const nodes = Array.from({ length: 130 }, (_, i) => ({ id: `n${i}`, handler: "nobody_has_this" }))
    const stdin = JSON.stringify({ name: "many", nodes })
    const { stdout } = await umbra(["validate", "-"], { stdin })
    expect(stdout.match(/ error E103 /g)).toHaveLength(100)
    expect(stdout).toContain("… and 30 more: --json lists them all")
    expect(stdout).toContain("✗ <stdin>: 130 problems")
    const all = await umbra(["validate", "-", "--json"], { stdin })
    expect(JSON.parse(all.stdout).errors).toHaveLength(130)
  })

  it("prints the same as JSON", async () => {
    const { valid, errors, exit } = await asJson("bad.yaml")
    expect({ valid, exit }).toEqual({ valid: false, exit: 2 })
    expect(errors.map(({ code, line, column }) => [code, line, column])).toEqual([
      ["E103", 4, 14],
      ["E102", 8, 24],
      ["E105", 9, 20],
      ["E111", 13, 18],
    ])
    expect(Object.keys(errors[0] ?? {})).toEqual(["code", "message", "path", "line", "column"])
  })

  it("puts the caret under the problem after wide characters, and lets no escape code through", async () => {
    const { stdout } = await umbra(["validate", "wide.yaml"], { cwd })
    const lines = stdout.split("\n")
    const frame = lines.findIndex(line => line.includes("3 │"))
    const line = lines[frame] as string
    expect(stdout).not.toContain("\u001b")
    // Two wide characters stand before it, so the caret is two columns further than the count of characters.
    expect(lines[frame + 1]?.indexOf("^")).toBe(line.indexOf("oops") + 2)
  })

  it("shows a window of a very long line", async () => {
    const { stdout } = await umbra(["validate", "long.json"], { cwd })
    expect(stdout).toContain('"handler":"nope"')
    for (const line of stdout.split("\n").filter(line => line.includes("│")))
      expect(line.length).toBeLessThan(130)
  })

  it("has colours only where requested", async () => {
    const plain = await umbra(["validate", "bad.yaml"], { cwd })
    const forced = await umbra(["validate", "bad.yaml"], { cwd, env: { FORCE_COLOR: "1" } })
    const refused = await umbra(["validate", "bad.yaml"], { cwd, env: { FORCE_COLOR: "1", NO_COLOR: "1" } })
    expect(plain.stdout).not.toContain("\u001b[")
    expect(forced.stdout).toContain("\u001b[31m")
    expect(refused.stdout).toBe(plain.stdout)
  })
})

describe("umbra validate on what cannot be read", () => {
  it.each([
    ["absent.yaml", /absent\.yaml does not exist/],
    ["good.yaml/inside.yaml", /does not exist: a part of its path is a file/],
    ["loop.yaml", /loop\.yaml cannot be read: ELOOP/],
    ["folder", /folder is a directory/],
    ["empty.yaml", /empty\.yaml is empty/],
    ["latin1.yaml", /latin1\.yaml is not UTF-8/],
  ])("%s", async (file, message) => {
    const human = await umbra(["validate", file], { cwd })
    expect(human.code).toBe(2)
    expect(human.stdout).toMatch(message)
    const { valid, errors, exit } = await asJson(file)
    expect({ valid, exit }).toEqual({ valid: false, exit: 2 })
    expect(errors).toEqual([
      { code: "E601", message: expect.stringMatching(message), path: "", line: null, column: null },
    ])
  })
})

describe("umbra validate --handlers", () => {
  it("does not know a user's handlers without it", async () => {
    expect((await asJson("own.yaml")).errors.map(({ code }) => code)).toEqual(["E103", "E103"])
  })

  it("takes every export of a TypeScript module that is a handler, and lists of them", async () => {
    expect(await asJson("own.yaml", "--handlers", "handlers.ts")).toEqual({
      valid: true,
      errors: [],
      exit: 0,
    })
    expect((await asJson("own.yaml", "--handlers", "./handlers.ts")).valid).toBe(true)
  })

  it("ends although a module keeps a timer", async () => {
    expect((await asJson("own.yaml", "--handlers", "handlers.ts", "--handlers", "timer.mjs")).exit).toBe(0)
  })

  it.each([
    ["./absent.ts", /absent\.ts does not exist/],
    ["no-such-package", /no-such-package is neither a file nor a package that is installed here/],
    ["nothing.mjs", /exports no handler/],
    ["throws.mjs", /throws\.mjs cannot be loaded: no database/],
    ["syntax.mjs", /syntax\.mjs cannot be loaded: [\s\S]*Unexpected/],
    ["clash.mjs", /"sleep" is the name of a built-in handler/],
    ["twice.mjs", /"a" is defined twice/],
  ])("says what is wrong with %s", async (module, message) => {
    const { valid, errors, exit } = await asJson("own.yaml", "--handlers", module)
    expect({ valid, exit }).toEqual({ valid: null, exit: 2 })
    expect(errors).toEqual([
      expect.objectContaining({ code: "E602", message: expect.stringMatching(message) }),
    ])
    // It is the module's fault, not the workflow's.
    const human = await umbra(["validate", "own.yaml", "--handlers", module], { cwd })
    expect(human).toMatchObject({ code: 2, stdout: "" })
    expect(human.stderr).toMatch(/^umbra: E602 /)
    expect(human.stderr).toMatch(message)
    expect(human.stderr).not.toContain("own.yaml")
  })
})
