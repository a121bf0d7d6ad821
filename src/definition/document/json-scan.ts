/**
 * Scans text that `JSON.parse` has accepted: it finds positions and never checks syntax.
 * It uses loops, no recursion: deep nesting cannot overflow the stack.
 */

const quote = 34
const backslash = 92

export interface JsonMember {
  /** Key of a mapping's member, index of a list's item. */
  readonly key: string | number
  /** Offset of the key; of the value for a list's item. */
  readonly keyAt: number
  readonly valueAt: number
}

/** The offset after the string that begins at `at`. */
function skipString(text: string, at: number): number {
  let end = text.indexOf('"', at + 1)
  while (end !== -1 && isEscaped(text, end)) end = text.indexOf('"', end + 1)
  return end === -1 ? text.length : end + 1
}

function isEscaped(text: string, at: number): boolean {
  let slashes = 0
  while (text.charCodeAt(at - 1 - slashes) === backslash) slashes++
  return slashes % 2 === 1
}

export function skipSpace(text: string, at: number): number {
  let here = at
  while (isSpace(text.charCodeAt(here))) here++
  return here
}

const isSpace = (code: number): boolean => code === 32 || code === 10 || code === 13 || code === 9

/** The offset after the value that begins at `at`. */
export function skipValue(text: string, at: number): number {
  const first = text[at]
  if (first === '"') return skipString(text, at)
  let here = at
  if (first !== "{" && first !== "[") {
    while (here < text.length && !",]}".includes(text[here]!) && !isSpace(text.charCodeAt(here))) here++
    return here
  }
  let depth = 0
  while (here < text.length) {
    const code = text.charCodeAt(here)
    if (code === quote) {
      here = skipString(text, here)
      continue
    }
    if (code === 0x7b || code === 0x5b) depth++
    else if ((code === 0x7d || code === 0x5d) && --depth === 0) return here + 1
    here++
  }
  return here
}

/**
 * Members of the mapping or list that begins at `at`; none if another value begins there. The value of a member is
 * scanned only when the next member is requested.
 */
export function* members(text: string, at: number): Generator<JsonMember, void, undefined> {
  const isMapping = text[at] === "{"
  if (!isMapping && text[at] !== "[") return
  let here = skipSpace(text, at + 1)
  for (let index = 0; here < text.length && text[here] !== "}" && text[here] !== "]"; index++) {
    const keyAt = here
    let key: string | number = index
    if (isMapping) {
      const keyEnd = skipString(text, here)
      key = JSON.parse(text.slice(here, keyEnd)) as string
      here = skipSpace(text, skipSpace(text, keyEnd) + 1)
    }
    yield { key, keyAt, valueAt: here }
    here = skipSpace(text, skipValue(text, here))
    if (text[here] === ",") here = skipSpace(text, here + 1)
  }
}

/** Number of members of all mappings in the text: more than in the parsed value means that a key is duplicated. */
export function countMembers(text: string): number {
  let count = 0
  for (let here = 0; here < text.length; ) {
    const code = text.charCodeAt(here)
    if (code === quote) {
      here = skipString(text, here)
      continue
    }
    if (code === 58) count++
    here++
  }
  return count
}

/**
 * Finds the first syntax error of a JSON text. Many messages of `JSON.parse` have no position, and their texts change
 * with every release of Node, so a text that it rejected is scanned again here.
 */

interface SyntaxFault {
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
