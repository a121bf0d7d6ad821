import { describe, expect, it } from "vitest"
import { PollPlaces } from "../../src/engine/providers/poll-places.ts"

function stage(most: number) {
  const places = new PollPlaces(most)
  const begun: string[] = []
  const releases: (() => void)[] = []
  const abandoned: string[] = []
  const take = (owner: string, name: string, abort = new AbortController()) => {
    places.take({
      ...{ owner, workflow: "w", signal: abort.signal },
      begin: release => {
        begun.push(name)
        releases.push(release)
      },
      abandoned: () => abandoned.push(name),
    })
    return abort
  }
  return { places, begun, releases, abandoned, take }
}

describe("places of polls", () => {
  it("owners take turns, however many polls one of them has", () => {
    const { begun, releases, take } = stage(1)
    for (let n = 1; n <= 100; n++) take("a", `a${n}`)
    take("b", "b1")
    take("b", "b2")
    for (let n = 0; n < 4; n++) releases[n]!()
    expect(begun).toEqual(["a1", "b1", "a2", "b2", "a3"])
  })

  it("an abort frees a place once, and an aborted one that waits gets none", () => {
    const { begun, releases, abandoned, take } = stage(2)
    const first = take("a", "a1")
    take("a", "a2")
    const waits = take("a", "a3")
    for (const name of ["a4", "a5"]) take("a", name)
    waits.abort()
    first.abort()
    releases[0]!()
    expect(begun).toEqual(["a1", "a2", "a4"])
    expect(abandoned).toEqual(["a3"])
  })

  it("is full for an owner of which as many wait as there are places", () => {
    const { places, releases, take } = stage(2)
    for (let n = 1; n <= 3; n++) take("a", `a${n}`)
    expect(places.isFull("a")).toBe(false)
    take("a", "a4")
    expect([places.isFull("a"), places.isFull("b")]).toEqual([true, false])
    releases[0]!()
    expect(places.isFull("a")).toBe(false)
  })
})
