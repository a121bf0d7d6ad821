import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { describe, expect, it } from "vitest"
import type { Json, JsonObject } from "../../src/core/json.ts"
import { UmbraError } from "../../src/errors.ts"
import { compileTemplate } from "../../src/template/index.ts"
import { scopeOf } from "./scope.ts"

interface Case {
  readonly kind: "expression" | "text"
  readonly source: string
  readonly result?: Json
  readonly error?: "syntax" | "missing" | "evaluation"
}

const recording = JSON.parse(readFileSync(new URL("./fixtures/jinja2.json", import.meta.url), "utf8")) as {
  readonly context: JsonObject
  readonly cases: readonly Case[]
}

const scope = scopeOf({ names: recording.context })

/** What Umbra makes of a case: `{ result }`, or `{ error }` in the recording's words. */
function outcome({ kind, source }: Case): { result: Json } | { error: string } {
  try {
    const template = compileTemplate(kind === "expression" ? `{{ ${source} }}` : source)
    const rendered = template.render(scope)
    return { result: kind === "text" && typeof rendered !== "string" ? String(rendered) : rendered }
  } catch (error) {
    if (!(error instanceof UmbraError)) throw error
    const names: Partial<Record<string, string>> = { E110: "syntax", E201: "missing", E202: "evaluation" }
    return { error: names[error.code] ?? error.code }
  }
}

/** Names known when a template is compiled are checked then, where Python finds out while rendering. */
const agrees = (found: string, recorded: string): boolean =>
  found === recorded || (found === "syntax" && recorded === "evaluation")

describe("J11 templates agree with Python's jinja2", () => {
  it("compares at least 300 hand-written and 300 generated cases", () => {
    expect(recording.cases.length).toBeGreaterThan(600)
  })

  it.each(recording.cases)("$kind $source", each => {
    const found = outcome(each)
    if (each.error === undefined) {
      expect(found).toEqual({ result: each.result })
    } else {
      const error = "error" in found ? found.error : `result ${JSON.stringify(found.result)}`
      expect(agrees(error, each.error), `${error}, recorded: ${each.error}`).toBe(true)
    }
  })
})

const hasJinja2 =
  spawnSync("python3", ["-c", "import jinja2, sys; sys.exit(jinja2.__version__ != '3.1.6')"]).status === 0

describe.runIf(hasJinja2)("with jinja2 3.1.6 installed", () => {
  it("the recording is current", () => {
    const script = new URL("../../scripts/record-jinja2.py", import.meta.url).pathname
    const check = spawnSync("python3", [script, "--check"], { encoding: "utf8" })
    expect(check.stderr + check.stdout).toBe("")
    expect(check.status).toBe(0)
  })
})
