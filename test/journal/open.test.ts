import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { openJournal } from "../../src/journal/open.ts"
import { freshFolder } from "./folder.ts"
import { postgresStage } from "./postgres-stage.ts"

describe("openJournal", () => {
  it.each(["", "  ", "mysql://localhost/x", "https://example.com", "memory:x", "postgres:"])(
    "refuses %j with a message that says what to write",
    async location => {
      const error = await openJournal(location, { retry: { tries: 1 } }).catch((found: unknown) => found)
      expect(error).toMatchObject({ code: location === "postgres:" ? expect.stringMatching(/^E50/) : "E504" })
      expect((error as Error).message).toMatch(/postgres|PostgreSQL/)
    },
  )

  it("opens each kind of location", async () => {
    const stage = await postgresStage()
    const folder = join(await freshFolder(), "made", "on the way")
    const found: string[] = []
    for (const location of ["memory:", folder, stage.url, stage.url.replace(/^postgres:/, "postgresql:")]) {
      const journal = await openJournal(location)
      onTestFinished(() => journal.close())
      found.push(journal.capabilities.label)
      expect(await journal.readPartitions()).toHaveLength(64)
    }
    expect(found[0]).toBe("memory")
    expect(found[1]).toContain(folder)
    expect(found[2]).toContain("PostgreSQL")
  })
})
