import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { defineAdapter } from "../../../src/pipeline/adapter.ts"
import { adapters, builtinAdapters } from "../../../src/pipeline/adapters/index.ts"

const page = readFileSync(join(import.meta.dirname, "../../../docs/reference/adapters.md"), "utf8")
const builtIn = builtinAdapters({ allowFiles: false, allowPrivateAddresses: false })

interface Property {
  readonly type?: string | readonly string[]
  readonly enum?: readonly string[]
  readonly anyOf?: readonly Property[]
  readonly items?: Property
  readonly description?: string
}

function typeOf({ type, enum: words, anyOf, items }: Property): string {
  if (words !== undefined) return words.join(", ")
  if (anyOf !== undefined) return [...new Set(anyOf.map(typeOf))].join(" or ")
  if (type === "array")
    return items === undefined || items.type === undefined ? "list" : `list of ${typeOf(items)}`
  if (type === "object") return "mapping"
  if (type === "integer") return "whole number"
  return type === undefined ? "anything" : [type].flat().join(" or ").replace("string", "text")
}

/** The config of an adapter as its section of the page shows it. */
function table(config: z.ZodType): string {
  const schema = z.toJSONSchema(config, { io: "input" })
  const required = new Set(schema.required ?? [])
  const rows = Object.entries((schema.properties ?? {}) as Record<string, Property>).map(
    ([name, property]) =>
      `| \`${name}\`${required.has(name) ? " (needed)" : ""} | ${typeOf(property)} | ${property.description} |`,
  )
  return ["| config | | |", "| --- | --- | --- |", ...rows].join("\n")
}

it.each(builtIn.map(adapter => [adapter.type, adapter] as const))(
  "the definition of %s is valid",
  (_, adapter) => {
    expect(() => defineAdapter(adapter as Parameters<typeof defineAdapter>[0])).not.toThrow()
  },
)

describe("docs/reference/adapters.md", () => {
  it.each(builtIn.map(({ type, config }) => [type, config as z.ZodType] as const))(
    "describes %s with every part of its config, as its schema says it",
    (type, config) => {
      const section = page.split(/^### /m).find(text => text.startsWith(`${type}\n`)) ?? ""
      expect(section, `a section "### ${type}"`).not.toBe("")
      expect(section).toContain(table(config))
      expect(table(config)).not.toContain("undefined")
      expect(section).toMatch(/```yaml\n[\s\S]*```/)
    },
  )

  it("the builder's adapters are the built-in ones", () => {
    const described = Object.values(adapters).map(({ type }) => type)
    expect(described.sort()).toEqual(builtIn.map(({ type }) => type).sort())
  })
})
