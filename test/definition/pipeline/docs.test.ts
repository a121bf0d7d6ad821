/** docs/reference/pipelines.md says what is: its table of defaults, its limits, its example. */
import { readFileSync } from "node:fs"
import { describe, expect, it } from "vitest"
import { adapterCatalog, loadWorkflow } from "../../../src/definition/index.ts"
import { defaultLimits } from "../../../src/definition/limits.ts"
import { routeDefaults } from "../../../src/definition/pipeline/schema.ts"
import { builtinAdapters } from "../../../src/pipeline/adapters/index.ts"
import { adapterSettings } from "../../../src/pipeline/adapters/settings.ts"
import { workerSettings } from "../../../src/worker/settings.ts"
import { catalogs } from "./catalog.ts"

const page = readFileSync(new URL("../../../docs/reference/pipelines.md", import.meta.url), "utf8")

function flat(value: object, above = ""): [string, unknown][] {
  return Object.entries(value).flatMap(([key, member]) =>
    typeof member === "object" && member !== null
      ? flat(member, `${above}${key}.`)
      : [[`${above}${key}`, member] as [string, unknown]],
  )
}

describe("docs/reference/pipelines.md", () => {
  it("P4 has the one table of defaults", () => {
    const rows = [...page.matchAll(/^\| `([a-z_.]+)` \| (`?[\w.]+`?) \| .+ \|$/gm)].map(
      ([, name, value]) => `${name} = ${value?.replaceAll("`", "")}`,
    )
    expect(rows).toEqual(flat(routeDefaults).map(([name, value]) => `${name} = ${value ?? "none"}`))
  })

  it("says the limits", () => {
    for (const name of ["routes", "adapters", "initMessages", "idLength"] as const)
      expect(page).toMatch(
        new RegExp(`^\\| \`${name}\` \\| ${defaultLimits[name].toLocaleString("en")}\\b`, "m"),
      )
  })

  it("begins with a pipeline that is valid", () => {
    const text = /^```yaml\n(.*?)^```$/ms.exec(page)?.[1] ?? ""
    const builtIn = builtinAdapters({ ...workerSettings(), ...adapterSettings() })
    const adapters = adapterCatalog([...builtIn, { type: "extract" }])
    expect(loadWorkflow(text, { ...catalogs, adapters }).problems).toBeUndefined()
  })
})
