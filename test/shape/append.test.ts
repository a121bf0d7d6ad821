import { describe, expect, it } from "vitest"
import { sql } from "../../src/journal/postgres/sql.generated.ts"

describe("the statements of an append", () => {
  it("append_jobs is append without the parts that concern operations", () => {
    const [parts, rest] = sql.appendJobs.split(/\n\)\n(?=select )/)
    expect(sql.append.startsWith(`${parts}\n),\nbegun as (`)).toBe(true)
    expect(sql.append.endsWith(`\n)\n${rest}`)).toBe(true)
  })

  it("append_rows has the fence, the facts, the rows of jobs and their marks", () => {
    expect([...sql.appendRows.matchAll(/^(?:with )?([a-z_]+) as /gm)].map(([, name]) => name)).toEqual([
      ...["fence", "held", "facts", "new_jobs", "changed_jobs", "marks"],
    ])
    const numbers = [...sql.appendRows.matchAll(/\$(\d+)/g)].map(([, number]) => number)
    expect([...new Set(numbers)].sort()).toEqual(["1", "2", "3", "4", "5", "6", "7"])
  })

  it("append_facts has the fence and the facts alone", () => {
    expect([...sql.appendFacts.matchAll(/^(?:with )?([a-z_]+) as /gm)].map(([, name]) => name)).toEqual([
      "fence",
      "held",
      "facts",
    ])
    expect([...sql.appendFacts.matchAll(/\$(\d+)/g)].map(([, number]) => number)).toEqual([
      "1",
      "2",
      "3",
      "4",
    ])
  })

  it("append_again is append_schedules, and skips the facts, jobs and holds that exist", () => {
    const added = "\n  on conflict do nothing"
    expect(sql.appendAgain.replaceAll(added, "")).toBe(sql.appendSchedules.replaceAll(added, ""))
    expect(sql.appendAgain.split(added)).toHaveLength(sql.appendSchedules.split(added).length + 2)
  })
})
