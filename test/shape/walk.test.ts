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
  const options = ["-p", "tsconfig.build.json", "--outDir", join(folder, "src"), "--declaration", "false"]
  // The build has checked the types, which takes most of the time.
  execFileSync("node_modules/.bin/tsc", [...options, "--emitDeclarationOnly", "false", "--noCheck"], {
    cwd: root,
  })
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** What runs during the walk that the program measures: source files, and the lines that ran in them. */
function walk(program: string): readonly { readonly file: string; readonly lines: number }[] {
  const options = [join(root, "test/shape", program), join(folder, "src"), join(folder, program)]
  const printed = execFileSync(process.execPath, options, { encoding: "utf8" })
  const all = JSON.parse(printed) as { readonly file: string; readonly lines: number }[]
  return all.map(({ file, lines }) => ({ file: file.replace(/\.js$/, ".ts"), lines }))
}

/** The files that ARCHITECTURE.md names between two texts. */
function named(from: string, to: string): readonly string[] {
  const page = read("ARCHITECTURE.md")
  const start = page.indexOf(from)
  const section = page.slice(start, page.indexOf(to, start))
  const files = section.matchAll(/`((?:core|engine|journal|pipeline|worker)\/[\w./-]+\.ts)`/g)
  return [...new Set([...files].map(([, file]) => file!))].sort()
}

it("from a worker's report to the next dispatch runs the code that ARCHITECTURE.md names", () => {
  const all = walk("walk-of-a-node.js")
  const walked = all.map(({ file }) => file).filter(file => /^(engine|core)\//.test(file))
  const section = named("## The walk of one node", "\n## ")
  expect(walked.sort()).toEqual(section.filter(file => file !== "core/view/attempt-history.ts"))
  expect(walked.length).toBeLessThanOrEqual(14)
  // Templates, the worker and the main thread's side of the store included.
  const lines = all.reduce((sum, file) => sum + file.lines, 0)
  expect(lines).toBeLessThanOrEqual(1300)
})

it("from a webhook's message to the shared commit runs the code that ARCHITECTURE.md names", () => {
  const walked = walk("walk-of-a-webhook.js").map(({ file }) => file)
  expect(walked.sort()).toEqual(named("## The walk of one webhook", "\n## "))
  expect(walked.length).toBeLessThanOrEqual(18)
})

it("from a message that is ready to its commit runs the code that ARCHITECTURE.md names", () => {
  const walked = walk("walk-of-a-message.js").map(({ file }) => file)
  expect(walked.sort()).toEqual(named("The walk of one message:", "`test/shape/walk.test.ts`"))
  expect(walked.length).toBeLessThanOrEqual(18)
})
