/**
 * Patterns and formats of JSON Schema, for threads only: loading the engine takes some 30 ms, and a match may be long.
 * A pattern that RE2 cannot express is of a version stored before such patterns were refused. It is matched by
 * JavaScript's own engine, which may backtrack without end: the caller sets a deadline.
 */
import { format } from "@cfworker/json-schema"
import { RE2JS } from "re2js"
import { translatePattern } from "./schema-pattern.ts"
import type { Matchers } from "./schema-validator.ts"

export function threadMatchers(): Matchers {
  const patterns = new Map<string, (text: string) => boolean>()
  return {
    pattern(source) {
      let matches = patterns.get(source)
      if (matches === undefined) {
        matches = compilePattern(source)
        patterns.set(source, matches)
      }
      return matches
    },
    format: name => (Object.hasOwn(format, name) ? format[name] : undefined),
  }
}

function compilePattern(source: string): (text: string) => boolean {
  const native = new RegExp(source, "u")
  const { re2 } = translatePattern(source, propertyRanges)
  if (re2 === undefined) return text => native.test(text)
  try {
    const linear = RE2JS.compile(re2)
    return text => linear.test(text)
  } catch {
    return text => native.test(text)
  }
}

const ranges = new Map<string, string>()

/** By asking the engine that defines the property: RE2 knows other names, and another version of Unicode. */
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
