import { execFileSync } from "node:child_process"
import { copyFileSync, mkdtempSync, rmSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { read } from "./files.ts"

const root = new URL("../..", import.meta.url).pathname
let folder = ""

beforeAll(() => {
  // In the checkout, where the sources find the packages they import. A file each: dist/ joins them.
  folder = mkdtempSync(join(root, "node_modules/.umbra-walk-"))
  copyFileSync(join(root, "package.json"), join(folder, "package.json"))
  const options = ["-p", "tsconfig.build.json", "--outDir", join(folder, "src")]
  execFileSync("npx", ["tsc", ...options, "--emitDeclarationOnly", "false", "--declaration", "false"], {
    cwd: root,
  })
}, 240_000)

afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** What runs during the walk that the program measures: source files, and the lines that ran in them. */
function walk(program: string): readonly { readonly file: string; readonly lines: number }[] {
  const options = [join(root, "test/shape", program), join(folder, "src"), join(folder, program)]
  const printed = execFileSync(process.execPath, options, { encoding: "utf8" })
  const all = JSON.parse(printed) as { readonly file: string; readonly lines: number }[]
  return all.map(({ file, lines }) => ({ file: file.replace(/\.js$/, ".ts"), lines }))
}

/** The files that a section of ARCHITECTURE.md names. */
function named(title: string): readonly string[] {
  const page = read("ARCHITECTURE.md")
  const start = page.indexOf(`## ${title}`)
  const section = page.slice(start, page.indexOf("\n## ", start))
  const files = [...section.matchAll(/`((?:engine|core|journal)\/[\w./-]+\.ts)`/g)].map(([, file]) => file!)
  return [...new Set(files)].sort()
}

it("from a worker's report to the next dispatch runs the code that ARCHITECTURE.md names", () => {
  const all = walk("walk-program.js")
  const walked = all.map(({ file }) => file).filter(file => /^(engine|core)\//.test(file))
  const expected = named("The walk of one node").filter(file => file !== "core/view/attempt-history.ts")
  expect(walked.sort()).toEqual(expected)
  expect(walked.length).toBeLessThanOrEqual(14)
  // Templates, the worker and the main thread's side of the store included.
  const lines = all.reduce((sum, file) => sum + file.lines, 0)
  expect(lines).toBeLessThanOrEqual(1300)
}, 240_000)

it("from a webhook's message to the shared commit runs the code that ARCHITECTURE.md names", () => {
  const walked = walk("webhook-walk-program.js").map(({ file }) => file)
  expect(walked.sort()).toEqual(named("The walk of one webhook"))
  expect(walked.length).toBeLessThanOrEqual(18)
}, 240_000)
