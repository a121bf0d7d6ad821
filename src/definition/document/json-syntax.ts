/**
 * Finds the first syntax error of a JSON text. Many messages of `JSON.parse` have no position, and their texts change
 * with every release of Node, so a text that it rejected is scanned again here.
 */
import { skipSpace } from "./json-scan.ts"

export interface SyntaxFault {
  readonly offset: number
  readonly message: string
}

const number = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y
const word = /true|false|null/y
function matchEnd(pattern: RegExp, text: string, at: number): number | undefined {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : undefined
}

export function findSyntaxFault(text: string): SyntaxFault {
  const closers: ("}" | "]")[] = []
  let at = skipSpace(text, 0)
  let expects: "value" | "first" | "key" | "more" = "value"
  while (true) {
    const closer = closers.at(-1)
    const char = text[at]
    if (expects === "more") {
      if (closer === undefined) return fault(text, at, "the end of the document")
      if (char === closer) closers.pop()
      else if (char === ",") expects = closer === "}" ? "key" : "value"
      else return fault(text, at, `"," or "${closer}"`)
      at = skipSpace(text, at + 1)
      continue
    }
    if (expects === "first" && char === closer) {
      closers.pop()
      expects = "more"
      at = skipSpace(text, at + 1)
      continue
    }
    if (expects === "key" || (expects === "first" && closer === "}")) {
      if (char !== '"') return fault(text, at, "a key in double quotes")
      const end = stringEnd(text, at)
      if (typeof end !== "number") return end
      at = skipSpace(text, end)
      if (text[at] !== ":") return fault(text, at, '":"')
      at = skipSpace(text, at + 1)
      expects = "value"
      continue
    }
    if (char === "{" || char === "[") {
      closers.push(char === "{" ? "}" : "]")
      expects = "first"
      at = skipSpace(text, at + 1)
      continue
    }
    const end = char === '"' ? stringEnd(text, at) : (matchEnd(number, text, at) ?? matchEnd(word, text, at))
    if (end === undefined) return fault(text, at, "a value")
    if (typeof end !== "number") return end
    at = skipSpace(text, end)
    expects = "more"
  }
}

function fault(text: string, offset: number, expected: string): SyntaxFault {
  const char = text[offset]
  const found = char === undefined ? "the text ends" : `found ${JSON.stringify(char)}`
  return { offset: Math.min(offset, text.length), message: `Not valid JSON: expected ${expected}, ${found}.` }
}

const escapeSequence = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y

/** A loop instead of one pattern for the whole string: a pattern would need stack for every character. */
function stringEnd(text: string, at: number): number | SyntaxFault {
  let here = at + 1
  while (here < text.length) {
    const code = text.charCodeAt(here)
    if (code === 34) return here + 1
    if (code < 32) {
      const message = `Not valid JSON: the string contains ${JSON.stringify(text[here])}; write it as an escape.`
      return { offset: here, message }
    }
    const next = code === 92 ? matchEnd(escapeSequence, text, here) : here + 1
    if (next === undefined)
      return { offset: here, message: "Not valid JSON: the string contains an unknown escape." }
    here = next
  }
  return { offset: at, message: "Not valid JSON: this string is never closed." }
}
