import { describe, expect, it } from "vitest"
import { nextVersion } from "../../src/core/version.ts"

describe("J20 versions", () => {
  it("begin with 1 and increment", () => {
    expect(nextVersion(undefined, "a")).toEqual({ version: 1, unchanged: false })
    expect(nextVersion({ version: 1, hash: "a" }, "b")).toEqual({ version: 2, unchanged: false })
  })

  it("content equal to the latest is not a new one", () => {
    expect(nextVersion({ version: 2, hash: "b" }, "b")).toEqual({ version: 2, unchanged: true })
  })

  it("going back to older content is a change", () => {
    // Version 1 was "a", version 2 is "b".
    expect(nextVersion({ version: 2, hash: "b" }, "a")).toEqual({ version: 3, unchanged: false })
  })
})
