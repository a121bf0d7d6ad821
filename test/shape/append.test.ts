import { describe, expect, it } from "vitest"
import { sql } from "../../src/journal/postgres/sql.generated.ts"

describe("the statements of an append", () => {
  it("append_jobs is append without the parts that concern operations", () => {
    const [parts, rest] = sql.appendJobs.split(/\n\)\n(?=select )/)
    // Only the long one is sent again.
    const append = sql.append.replaceAll(/\n *-- again: .*/g, "")
    expect(append.startsWith(`${parts}\n),\nbegun as (`)).toBe(true)
    expect(append.endsWith(`\n)\n${rest}`)).toBe(true)
    expect(append).not.toBe(sql.append)
  })
})
