/**
 * Patterns and formats of JSON Schema, for threads only: loading the engine takes some 30 ms, and a match may be long. A
 * pattern that RE2 cannot express belongs to a version stored before such patterns were rejected. JavaScript's own engine
 * matches it; that may backtrack without end, so it is interrupted at the deadline of the check.
 */

import { format } from "@cfworker/json-schema"
import { RE2JS } from "re2js"
import { valueIn } from "../../core/maps.ts"
import { withinDeadline } from "./deadline.ts"
import { type CheckRun, stepsPerMs } from "./schema-checks.ts"
import { translatePattern } from "./schema-pattern.ts"
import type { Matcher, Matchers } from "./schema-validator.ts"

export function threadMatchers(): Matchers {
  const patterns = new Map<string, Matcher>()
  return {
    pattern: source => valueIn(patterns, source, () => compilePattern(source)),
    format: name => (Object.hasOwn(format, name) ? formatMatcher(name, format[name]!) : undefined),
  }
}

function compilePattern(source: string): Matcher {
  const native = new RegExp(source, "u")
  const { re2 } = translatePattern(source, propertyRanges)
  if (re2 === undefined) return interrupted(text => native.test(text))
  let linear: RE2JS | undefined
  // Compiled at first use: a pattern of a thousand repetitions takes a millisecond.
  return (text, run) => {
    linear ??= RE2JS.compile(re2)
    // In the worst case the engine visits each of its states for each character, some 12 ns each.
    run.spend(1 + (text.length * linear.programSize()) / 8)
    return linear.test(text)
  }
}

/** All take time in proportion to the text, except `url`, whose expression backtracks without end. */
function formatMatcher(name: string, fits: (text: string) => boolean): Matcher {
  if (name === "url") return interrupted(fits)
  return (text, run) => {
    run.spend(1 + (text.length >> 2))
    return fits(text)
  }
}

/** For matches that cannot be counted: their time is measured and converted to steps. */
function interrupted(matches: (text: string) => boolean): Matcher {
  return (text, run: CheckRun) => {
    const begun = performance.now()
    const left = Math.min(2 ** 31 - 1, Math.max(1, Math.ceil(run.deadline - begun)))
    try {
      return withinDeadline(left, () => matches(text))
    } finally {
      run.spend((performance.now() - begun) * stepsPerMs)
    }
  }
}

const ranges = new Map<string, string>()

/** Queries the JavaScript engine, which defines the property: RE2 has other names, and another version of Unicode. */
function propertyRanges(property: string): string {
  let known = ranges.get(property)
  if (known === undefined) {
    const pattern = new RegExp(property, "u")
    known = ""
    for (let codePoint = 0, from = -1; codePoint <= 0x110000; codePoint++) {
      const isIn = codePoint < 0x110000 && pattern.test(String.fromCodePoint(codePoint))
      if (isIn && from === -1) from = codePoint
      if (isIn || from === -1) continue
      known += `\\x{${from.toString(16)}}-\\x{${(codePoint - 1).toString(16)}}`
      from = -1
    }
    ranges.set(property, known)
  }
  return known
}
