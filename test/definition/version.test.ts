import { describe, expect, it } from "vitest"
import { nextVersion } from "../../src/definition/index.ts"

describe("J20 versions", () => {
  it("begin with 1 and increment", () => {
    expect(nextVersion([], "a")).toEqual({ version: 1, unchanged: false })
    expect(nextVersion([{ version: 1, hash: "a" }], "b")).toEqual({ version: 2, unchanged: false })
  })

  it("content equal to the latest is not a new one", () => {
    const existing = [
      { version: 2, hash: "b" },
      { version: 1, hash: "a" },
    ]
    expect(nextVersion(existing, "b")).toEqual({ version: 2, unchanged: true })
  })

  it("going back to older content is a change", () => {
    const existing = [
      { version: 1, hash: "a" },
      { version: 2, hash: "b" },
    ]
    expect(nextVersion(existing, "a")).toEqual({ version: 3, unchanged: false })
  })
})
