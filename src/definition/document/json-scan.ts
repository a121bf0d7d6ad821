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
