import { describe, expect, it } from "vitest"
import { errorTable } from "../../src/errors.ts"
import { read } from "./files.ts"

interface Section {
  readonly code: string
  readonly title: string
  readonly body: string
}

function sectionsOf(markdown: string): readonly Section[] {
  return markdown.split(/^(?=###? )/m).flatMap(text => {
    const heading = /^### (E\d+) · (.+)$/m.exec(text)
    return heading ? [{ code: heading[1] ?? "", title: heading[2] ?? "", body: text }] : []
  })
}

describe("docs/reference/errors.md", () => {
  const sections = sectionsOf(read("docs/reference/errors.md"))
  const table = Object.entries(errorTable).map(([code, { title }]) => ({ code, title }))

  it("lists exactly the codes of src/errors.ts, with their titles", () => {
    const documented = new Map(sections.map(({ code, title }) => [code, title]))
    const codes = new Set<string>(table.map(({ code }) => code))
    const problems = [
      ...table.filter(({ code }) => !documented.has(code)).map(row => `add "### ${row.code} · ${row.title}"`),
      ...table
        .filter(({ code, title }) => documented.has(code) && documented.get(code) !== title)
        .map(({ code, title }) => `the heading of ${code} should be "### ${code} · ${title}"`),
      ...sections.filter(({ code }) => !codes.has(code)).map(({ code }) => `remove ${code}: no such error`),
    ]
    expect(problems).toEqual([])
  })

  it("has each code once, in order", () => {
    const codes = sections.map(({ code }) => code)
    expect(codes).toEqual([...new Set(codes)].sort())
  })

  it("says for each what causes it and what to do", () => {
    const lacking = sections.filter(({ body }) => !/^Cause: \S/m.test(body) || !/^What to do: \S/m.test(body))
    expect(lacking.map(({ code }) => `${code} needs a line "Cause: …" and a line "What to do: …"`)).toEqual(
      [],
    )
  })

  it("every code has the form E and three digits", () => {
    expect(table.filter(({ code }) => !/^E[1-9]\d\d$/.test(code))).toEqual([])
  })
})
