import { describe, expect, it } from "vitest"
import { listFiles, read } from "./files.ts"
import { impurities } from "./purity.ts"

describe("purity of core", () => {
  it("no file of core waits, reads a clock, rolls dice or touches the world", () => {
    const files = listFiles("src/core").filter(file => file.endsWith(".ts"))
    expect(files.length).toBeGreaterThan(0)
    expect(files.flatMap(file => impurities(file, read(file)))).toEqual([])
  })

  it.each([
    ["const now = Date.now()", "Date"],
    ["const at = new Date()", "Date"],
    ["const at = Date.parse(Date())", "Date"],
    ["const x = Math.random()", "Math.random"],
    ['const x = Math["random"]()', "Math.random"],
    ["const x = Math[name]()", "Math.random"],
    ["const { random } = Math", "Math as a value"],
    ["const t = performance.now()", "performance"],
    ["async function f() {}", "async"],
    ["const f = async () => 1", "async"],
    ["await f()", "await"],
    ["for await (const x of y) f(x)", "await"],
    ["setTimeout(f, 1)", "setTimeout"],
    ["const p = process.env.HOME", "process"],
    ["const p = { process }", "process"],
    ["const id = crypto.randomUUID()", "crypto"],
    ["console.log(1)", "console"],
    ["const d = globalThis.x", "globalThis"],
    [`const text = \`\${Date.now()}\``, "Date"],
    ['const f = import("x")', "import()"],
    ["const u = import.meta.url", "import.meta"],
    ["const p: Promise<void> = f()", "Promise"],
  ])("finds the fault in %s", (text, fault) => {
    expect(impurities("x.ts", text)).toContain(`x.ts:1 ${fault}`)
  })

  it.each([
    ['// Date.now()\nconst text = "await Date.now() process"'],
    ["const quote = /\"'`/, x = job.process, y = { process: 1, Date: 2 }"],
    ["interface X { readonly process: string; crypto(): void }"],
    ["const y = Math.max(1, 2)"],
    ["const at = Date.parse(text)"],
  ])("finds none in %s", text => {
    expect(impurities("x.ts", text)).toEqual([])
  })
})
