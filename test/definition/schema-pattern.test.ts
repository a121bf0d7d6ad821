/** Patterns in the syntax of RE2 mean what they mean in JavaScript; those that RE2 does not have are named. */

import { describe, expect, it } from "vitest"
import { CheckRun } from "../../src/definition/input/schema-checks.ts"
import { threadMatchers } from "../../src/definition/input/schema-matchers.ts"
import { translatePattern, unsupportedConstruct } from "../../src/definition/input/schema-pattern.ts"
import fc from "../support/property.ts"
import { problemsOf } from "./catalog.ts"

const run = () => new CheckRun({ steps: Number.POSITIVE_INFINITY })

const alphabet = [
  "a",
  "b",
  "B",
  "0",
  "_",
  "-",
  ".",
  " ",
  "\n",
  "\r",
  "\u2028",
  "\u00a0",
  "\ufeff",
  "é",
  "ж",
  "😀",
]

const atom = fc.constantFrom(
  ...[
    "a",
    "b",
    "ж",
    "😀",
    ".",
    "\\d",
    "\\D",
    "\\w",
    "\\W",
    "\\s",
    "\\S",
    "\\.",
    "\\n",
    "\\t",
    "\\x61",
    "\\u0062",
  ],
  ...[
    "\\u{1F600}",
    "\\ud83d\\ude00",
    "\\p{L}",
    "\\P{L}",
    "\\p{Script=Cyrillic}",
    "\\p{Lowercase}",
    "\\cJ",
    "\\0",
  ],
  ...[
    "[a-c]",
    "[^a-c]",
    "[\\s\\d]",
    "[^\\S]",
    "[\\w.-]",
    "[\\b]",
    "[]",
    "[^]",
    "[😀-😂]",
    "[[:a]",
    "[a&&b]",
    "[\\p{L}0]",
  ],
  ...["^", "$", "\\b", "\\B", "[-a]", "[a\\-z]", "[\\^]", "\\/", "\\$"],
)

const quantifier = fc.constantFrom("", "", "", "*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?", "{1,2}?")

const isAssertion = (text: string) => ["^", "$", "\\b", "\\B"].includes(text)

const single = fc.tuple(atom, quantifier).map(([of, times]) => (isAssertion(of) ? of : of + times))

const pattern: fc.Arbitrary<string> = fc.letrec<{ all: string }>(tie => ({
  all: fc.oneof(
    { maxDepth: 3 },
    single,
    fc.tuple(single, tie("all")).map(parts => parts.join("")),
    fc
      .tuple(fc.constantFrom("(", "(?:"), tie("all"), quantifier, tie("all"))
      .map(([open, inside, times, rest]) => `${open}${inside})${times}${rest}`),
    fc.tuple(tie("all"), tie("all")).map(sides => sides.join("|")),
  ),
})).all

const text = fc.array(fc.constantFrom(...alphabet), { maxLength: 8 }).map(parts => parts.join(""))

/**
 * Tries the pattern at the start of every code point, as ECMAScript specifies for the flag `u`. `test` of V8 also
 * tries the middle of a surrogate pair, where `\B` matches.
 */
function nativeMatcher(source: string): (text: string) => boolean {
  const native = new RegExp(source, "uy")
  return text => {
    let index = 0
    for (const character of [...text, ""]) {
      native.lastIndex = index
      if (native.test(text)) return true
      index += character.length
    }
    return false
  }
}

describe("patterns that are matched in linear time", () => {
  it("do not match inside a surrogate pair", () => {
    const matchesLinearly = threadMatchers().pattern("\\B")
    expect([matchesLinearly("a😀a", run()), nativeMatcher("\\B")("a😀a")]).toEqual([false, false])
  })

  it("mean the same as in JavaScript", () => {
    const matchers = threadMatchers()
    fc.assert(
      fc.property(pattern, fc.array(text, { minLength: 5, maxLength: 10 }), (source, texts) => {
        const matchesNatively = nativeMatcher(source)
        expect(translatePattern(source, () => "a").re2, source).toBeTypeOf("string")
        for (const each of texts)
          expect([source, each, matchers.pattern(source)(each, run())]).toEqual([
            source,
            each,
            matchesNatively(each),
          ])
      }),
      { numRuns: 400 },
    )
  })

  it.each(["^(a+)+$", "^(a|a)*$", "(x+x+)+y", "^(?:.*a){20}$", "([a-zA-Z]+)*!"])(
    "%s: a text ten times as long takes about ten times as long",
    source => {
      const matches = threadMatchers().pattern(source)
      const cpu = (length: number) => {
        const begun = process.cpuUsage()
        matches(`${"a".repeat(length)}é`, run())
        const { user, system } = process.cpuUsage(begun)
        return (user + system) / 1000
      }
      cpu(1000)
      // Exponential or quadratic matching would take minutes.
      expect(cpu(200_000)).toBeLessThan(5000)
    },
  )
})

describe("E101 constructs that no linear-time engine has are refused with their name", () => {
  it.each([
    ["a(?=b)", 'a lookahead ("(?=")'],
    ["a(?!b)", 'a negative lookahead ("(?!")'],
    ["(?<=a)b", 'a lookbehind ("(?<=")'],
    ["(?<!a)b", 'a negative lookbehind ("(?<!")'],
    ["(a)\\1", 'a backreference ("\\1")'],
    ["(?<n>a)\\k<n>", 'a backreference ("\\k<…>")'],
    ["a{1001}", 'more than 1000 repetitions ("{1001}")'],
    ["(?:a{50}b){30}", 'more than 1000 repetitions ("{30}")'],
  ])("%s", (source, construct) => {
    expect(unsupportedConstruct(source)).toBe(construct)
    for (const schema of [{ pattern: source }, { patternProperties: { [source]: {} } }]) {
      const input = { properties: { a: schema } }
      const [problem, ...others] = problemsOf(
        JSON.stringify({ name: "x", input, nodes: [{ id: "a", handler: "echo" }] }),
      )
      expect(others).toEqual([])
      expect(problem).toMatchObject({ code: "E101", message: expect.stringContaining(construct) })
    }
  })

  it("escaped or within a class they are characters", () => {
    for (const source of ["\\(\\?=a", "[(?=a)]", "\\\\1", "(?<name>a)"])
      expect(unsupportedConstruct(source), source).toBeUndefined()
  })
})
