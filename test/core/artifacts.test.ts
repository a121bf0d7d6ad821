import fc from "fast-check"
import { expect, it } from "vitest"
import {
  artifactsInText,
  artifactsInValue,
  mentionsInText,
  mentionsInValue,
} from "../../src/core/artifacts.ts"
import type { Json } from "../../src/core/json.ts"

const hash = (digit: string) => `sha256:${digit.repeat(64)}`

it("a reference is an object with a key artifact and a hash, at any depth", () => {
  const value = {
    a: [{ artifact: hash("a"), name: "x" }, { b: { artifact: hash("b") } }],
    artifact: hash("c"),
  }
  expect([...artifactsInValue(value)].sort()).toEqual([hash("a"), hash("b"), hash("c")])
  expect([...artifactsInText(JSON.stringify(value))].sort()).toEqual([hash("a"), hash("b"), hash("c")])
})

it("a text that only resembles a reference is none", () => {
  const values: Json[] = [
    hash("a"),
    [hash("a")],
    { other: hash("a") },
    { artifact: `${hash("a")}0` },
    { artifact: hash("a").toUpperCase() },
    { artifact: [hash("a")] },
    { text: `{"artifact":"${hash("a")}"}` },
    { 'x"artifact': hash("a") },
    { text: `,"artifact":"${hash("a")}"` },
  ]
  for (const value of values) {
    expect(artifactsInValue(value)).toEqual([])
    expect(artifactsInText(JSON.stringify(value))).toEqual([])
  }
})

it("text and value have the same references", () => {
  const leaf = fc.oneof(
    fc.constantFrom(
      hash("a"),
      hash("b"),
      "sha256:",
      `"artifact":"${hash("c")}"`,
      `{"artifact":"${hash("d")}"}`,
    ),
    fc.string(),
    fc.constant(null),
    fc.integer(),
  )
  const key = fc.oneof(fc.constantFrom("artifact", 'x"artifact', ',"artifact'), fc.string())
  const { value } = fc.letrec<{ value: Json }>(tie => ({
    value: fc.oneof({ maxDepth: 4 }, leaf, fc.array(tie("value")), fc.dictionary(key, tie("value"))),
  }))
  fc.assert(
    fc.property(value, each => {
      const text = JSON.stringify(each)
      expect([...artifactsInText(text)].sort()).toEqual([...artifactsInValue(each)].sort())
      const hashes = (mentions: Iterable<{ artifact: string }>) =>
        Array.from(mentions, ({ artifact }) => artifact).sort()
      expect(hashes(mentionsInText(text))).toEqual(hashes(mentionsInValue(each)))
    }),
    { numRuns: 2000 },
  )
})

it("mentions have name, type and size where the reference has them, in the order of the text", () => {
  const reference = { artifact: hash("a"), name: 'ü "x"\n{', type: "image/png", bytes: 12 }
  const value = {
    list: [reference, { artifact: hash("b"), name: 7, bytes: "x" }, reference],
    deep: { more: { type: "text/plain", artifact: hash("c") }, inner: { artifact: hash("d"), of: [1] } },
  }
  const all = [reference, { artifact: hash("b") }, reference]
  expect(mentionsInValue(value)).toEqual([
    ...all,
    { artifact: hash("c"), type: "text/plain" },
    { artifact: hash("d") },
  ])
  // Of a text only what has the form in which `put` answers is read.
  expect([...mentionsInText(JSON.stringify(value))]).toEqual([
    ...all,
    { artifact: hash("c") },
    { artifact: hash("d") },
  ])
  const long = { artifact: hash("e"), name: "n".repeat(5_000_000) }
  expect([...mentionsInText(JSON.stringify([long]))]).toEqual([{ artifact: hash("e") }])
})
