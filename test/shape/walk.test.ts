import { execFileSync } from "node:child_process"
import { copyFileSync, mkdtempSync, rmSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { read } from "./files.ts"

const root = new URL("../..", import.meta.url).pathname
let folder: string

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

/** The files that the program walks through, as measured, with the number of lines that ran. */
function walk(program: string): { readonly file: string; readonly lines: number }[] {
  const path = join(root, "test/shape", program)
  const options = [path, join(folder, "src"), join(folder, program)]
  const printed = execFileSync(process.execPath, options, { encoding: "utf8" })
  const all = JSON.parse(printed) as { readonly file: string; readonly lines: number }[]
  return all.map(({ file, lines }) => ({ file: file.replace(/\.js$/, ".ts"), lines }))
}

/** The files of these rooms that a section of ARCHITECTURE.md names. */
function named(from: string, to: string, rooms: string): string[] {
  const page = read("ARCHITECTURE.md")
  const section = page.slice(page.indexOf(from), page.indexOf(to))
  const files = section.matchAll(new RegExp(`\`((?:${rooms})/[\\w./-]+\\.ts)\``, "g"))
  return [...new Set([...files].map(([, file]) => file!))].sort()
}

it("from a worker's report to the next dispatch runs the code that ARCHITECTURE.md names", () => {
  const all = walk("walk-of-a-node.js")
  const walked = all.map(({ file }) => file).filter(file => /^(engine|core)\//.test(file))
  const section = named("## The walk of one node", "## The walk of one event", "engine|core")
  expect(walked.sort()).toEqual(section.filter(file => file !== "core/view/attempt-history.ts"))
  expect(walked.length).toBeLessThanOrEqual(16)
  // Templates, the worker and the main thread's side of the store included.
  const lines = all.reduce((sum, file) => sum + file.lines, 0)
  expect(lines).toBeLessThanOrEqual(1300)
}, 240_000)

it("from a message that is ready to its commit runs the code that ARCHITECTURE.md names", () => {
  const walked = walk("walk-of-a-message.js").map(({ file }) => file)
  const section = named("The walk of one message:", "What can be asked of", "core|engine|pipeline|worker")
  expect(walked.sort()).toEqual(section)
  expect(walked.length).toBeLessThanOrEqual(18)
}, 240_000)
