import { execFileSync } from "node:child_process"
import { copyFileSync, mkdtempSync, rmSync } from "node:fs"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { read } from "./files.ts"

const root = new URL("../..", import.meta.url).pathname
const program = join(root, "test/shape/walk-program.js")

it("from a worker's report to the next dispatch runs the code that ARCHITECTURE.md names", () => {
  // In the checkout, where the sources find the packages they import. A file each: dist/ joins them.
  const folder = mkdtempSync(join(root, "node_modules/.umbra-walk-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  copyFileSync(join(root, "package.json"), join(folder, "package.json"))
  const sources = join(folder, "src")
  const options = ["-p", "tsconfig.build.json", "--outDir", sources]
  execFileSync("npx", ["tsc", ...options, "--emitDeclarationOnly", "false", "--declaration", "false"], {
    cwd: root,
  })
  const program_ = [program, sources, join(folder, "data")]
  const printed = execFileSync(process.execPath, program_, { encoding: "utf8" })
  const all = JSON.parse(printed) as { readonly file: string; readonly lines: number }[]
  const walked = all
    .map(({ file }) => file.replace(/\.js$/, ".ts"))
    .filter(file => /^(engine|core)\//.test(file))
  const page = read("ARCHITECTURE.md")
  const section = page.slice(
    page.indexOf("## The walk of one node"),
    page.indexOf("## The walk of one event"),
  )
  const named = [...section.matchAll(/`((?:engine|core)\/[\w./-]+\.ts)`/g)].map(([, file]) => file!)
  const walk = named.filter(file => file !== "core/view/attempt-history.ts")
  expect(walked.sort()).toEqual([...new Set(walk)].sort())
  expect(walked.length).toBeLessThanOrEqual(16)
  // Templates, the worker and the main thread's side of the store included.
  const lines = all.reduce((sum, file) => sum + file.lines, 0)
  expect(lines).toBeLessThanOrEqual(1300)
}, 240_000)
