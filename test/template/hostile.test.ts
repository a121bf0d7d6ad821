import { spawnSync } from "node:child_process"
import { describe, expect, it } from "vitest"
import { programArguments } from "../support/program.ts"
import { hostileTemplates } from "./hostile-templates.ts"

interface Cost {
  readonly source: string
  readonly outcome: string
  readonly ms: number
  readonly mb: number
}

/** The data the templates read takes about 30 MB, the compiler of TypeScript as much; 50 are left for a template. */
const HEAP_MB = 120

const script = new URL("./hostile-run.ts", import.meta.url).pathname
const run = spawnSync(
  process.execPath,
  ["--expose-gc", `--max-old-space-size=${HEAP_MB}`, ...programArguments(script)],
  { encoding: "utf8", maxBuffer: 1e8 },
)
const costs = run.stdout
  .split("\n")
  .filter(line => line !== "")
  .map(line => JSON.parse(line) as Cost)

describe("J11 a hostile template ends within 50 ms and 50 MB", () => {
  it("leaves the process alive on a small heap", () => {
    expect(run.stderr).not.toContain("heap")
    expect(run.status).toBe(0)
    expect(costs).toHaveLength(hostileTemplates.length)
  })

  it.each(costs)("$source", ({ outcome, ms, mb }) => {
    expect(outcome).toMatch(/^(rendered|E110|E201|E202|E203)$/)
    expect(ms).toBeLessThan(50)
    expect(mb).toBeLessThan(50)
  })

  it("most of them end in an error that names the limit", () => {
    expect(costs.filter(({ outcome }) => outcome === "E203" || outcome === "E110").length).toBeGreaterThan(80)
  })
})
