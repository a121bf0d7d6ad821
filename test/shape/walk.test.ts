import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { read } from "./files.ts"

const program = new URL("./walk-program.js", import.meta.url).pathname

it("from a worker's report to the next dispatch runs the code that ARCHITECTURE.md names", () => {
  const folder = mkdtempSync(join(tmpdir(), "umbra-walk-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const printed = execFileSync(process.execPath, [program, join(folder, "data")], { encoding: "utf8" })
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
