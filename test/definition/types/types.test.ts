/**
 * Runs the compiler over the type tests of this folder: once as they stand, and once with every `@ts-expect-error`
 * taken away, where exactly those lines must fail. So neither an accepting nor a refusing line can rot.
 */
import { spawnSync } from "node:child_process"
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { afterAll, describe, expect, it } from "vitest"

const root = resolve(import.meta.dirname, "../../..")
const files = readdirSync(import.meta.dirname).filter(name => name.endsWith(".types.ts"))
const expected = /^\s*\/\/ @ts-expect-error .+$/

/** A package of the same shape, so that the tests' imports mean the same files. */
function workbench(): string {
  const folder = mkdtempSync(join(tmpdir(), "umbra-types-"))
  for (const name of ["src", "node_modules", "package.json"])
    symlinkSync(join(root, name), join(folder, name))
  mkdirSync(join(folder, "test/definition/types"), { recursive: true })
  const options = {
    extends: join(root, "tsconfig.json"),
    compilerOptions: { paths: { umbra: ["./test/definition/types/public.ts"] } },
    include: ["test/definition/types"],
  }
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(options))
  return folder
}

/** `file.ts(12` of every error. */
function compile(folder: string): string[] {
  const tsc = join(root, "node_modules/.bin/tsc")
  const { stdout, stderr, status } = spawnSync(tsc, ["-p", "tsconfig.json"], {
    cwd: folder,
    encoding: "utf8",
  })
  expect(stderr).toBe("")
  const errors = stdout.split("\n").filter(line => line.includes("error TS"))
  expect(errors.length > 0, stdout).toBe(status !== 0)
  return errors.map(line => /([^/(]+\(\d+),/.exec(line)?.[1] ?? line)
}

describe("the builder's types", () => {
  const folder = workbench()
  const put = (name: string, text: string) => writeFileSync(join(folder, "test/definition/types", name), text)
  const original = (name: string) => readFileSync(join(import.meta.dirname, name), "utf8")
  put("handlers.ts", original("handlers.ts"))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it("accept what they should, and refuse what they should", () => {
    for (const name of files) put(name, original(name))
    expect(compile(folder)).toEqual([])
  })

  it.each([
    ["builder.md", "page.output.body", "page.output.bodi"],
    ["pipelines.md", "message.url", "message.uri"],
  ])("let every example of docs/%s compile", (name, right, wrong) => {
    const page = readFileSync(join(root, "docs/reference", name), "utf8")
    const blocks = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code!)
    // A block that names its file is a module of its own; the others are one.
    const isModule = (block: string) => /^\/\/ \w+\.ts\n/.test(block)
    const examples = blocks.filter(block => !isModule(block)).join("\n")
    expect(examples.split("\n").length).toBeGreaterThan(20)
    for (const name of files) put(name, "export {}\n")
    const rooms = ["definition/typed/builder.ts", "worker/handler.ts", "pipeline/adapter.ts"]
    put("public.ts", rooms.map(room => `export * from "../../../src/${room}"\n`).join(""))
    put("examples.ts", examples)
    blocks.filter(isModule).forEach((block, index) => {
      put(`module-${index}.ts`, block)
    })
    expect(compile(folder)).toEqual([])
    put("examples.ts", examples.replace(right, wrong))
    expect(compile(folder)).toHaveLength(1)
    put("examples.ts", "export {}\n")
  })

  it("refuse exactly the lines that say so", () => {
    const refused: string[] = []
    for (const name of files) {
      const lines = original(name).split("\n")
      put(name, lines.map(line => (expected.test(line) ? "" : line)).join("\n"))
      refused.push(...lines.flatMap((line, i) => (expected.test(line) ? [`${name}(${i + 2}`] : [])))
    }
    expect(refused.length).toBeGreaterThan(40)
    expect([...new Set(compile(folder))]).toEqual(refused)
  })
})
