/**
 * Translates regular expressions of JSON Schema (ECMAScript, flag `u`) to the syntax of RE2, which matches in linear time.
 * The meaning is kept: `\s`, `.`, `\p{…}` and classes are written out, since RE2 defines them differently.
 * Precondition: `new RegExp(source, "u")` accepts the source, so its syntax is not checked again.
 */

export type Translation =
  | { readonly re2: string; readonly unsupported?: undefined }
  /** The name of the construct that RE2 does not have. */
  | { readonly re2?: undefined; readonly unsupported: string }

/** RE2 rejects more repetitions, nested ones multiplied. */
const repetitionLimit = 1000

/** The characters of a Unicode property, as the content of a class. */
export type PropertyRanges = (property: string) => string

/** The construct of this pattern that a linear-time engine lacks; `undefined`: none. */
export function unsupportedConstruct(source: string): string | undefined {
  return translatePattern(source, () => "a").unsupported
}

export function translatePattern(source: string, properties: PropertyRanges): Translation {
  try {
    return { re2: new Translator(source, properties).translate() }
  } catch (error) {
    if (error instanceof Unsupported) return { unsupported: error.message }
    throw error
  }
}

class Unsupported extends Error {}

const lookarounds: readonly (readonly [start: string, name: string])[] = [
  ["(?=", "a lookahead"],
  ["(?!", "a negative lookahead"],
  ["(?<=", "a lookbehind"],
  ["(?<!", "a negative lookbehind"],
]

const everything = "\\x{0}-\\x{10FFFF}"
const spaces =
  "\\x{9}-\\x{d}\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}"
const noSpaces =
  "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}" +
  "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{fefe}\\x{ff00}-\\x{10FFFF}"

const controls: Readonly<Record<string, number>> = { f: 12, n: 10, r: 13, t: 9, v: 11, 0: 0 }

/** One character, or the content of a class. */
type Atom = number | string

const literal = (codePoint: number): string => `\\x{${codePoint.toString(16)}}`

class Translator {
  readonly #source: string
  readonly #properties: PropertyRanges
  #at = 0

  constructor(source: string, properties: PropertyRanges) {
    this.#source = source
    this.#properties = properties
  }

  translate(): string {
    let re2 = ""
    /** The largest number of repetitions inside each open group, and of the atom before. */
    const open: number[] = [1]
    let last = 1
    while (this.#at < this.#source.length) {
      const character = this.#source[this.#at]!
      if (character === "(") {
        re2 += this.#group()
        open.push(1)
        last = 1
      } else if (character === ")") {
        this.#at++
        re2 += ")"
        last = open.pop()!
      } else if ("*+?{".includes(character)) {
        const { text, most } = this.#quantifier()
        re2 += text
        last *= most
        if (last > repetitionLimit)
          throw new Unsupported(`more than ${repetitionLimit} repetitions ("${text}")`)
        open[open.length - 1] = Math.max(open.at(-1)!, last)
        continue
      } else if ("^$|".includes(character)) {
        this.#at++
        re2 += character
        last = 1
      } else {
        re2 += this.#single(character)
        last = 1
      }
      open[open.length - 1] = Math.max(open.at(-1)!, last)
    }
    return re2
  }

  #group(): string {
    const rest = this.#source.slice(this.#at, this.#at + 4)
    for (const [start, name] of lookarounds)
      if (rest.startsWith(start)) throw new Unsupported(`${name} ("${start}")`)
    if (rest.startsWith("(?:")) {
      this.#at += 3
      return "(?:"
    }
    if (rest.startsWith("(?<")) this.#at = this.#source.indexOf(">", this.#at) + 1
    else if (rest.startsWith("(?")) throw new Unsupported(`flags of a group ("${rest}")`)
    else this.#at++
    // Captures are not needed here, and cost time.
    return "(?:"
  }

  #quantifier(): { text: string; most: number } {
    const [text, least, , greatest] = /^(?:[*+?]|\{(\d+)(,(\d*))?\})\??/.exec(this.#source.slice(this.#at))!
    this.#at += text.length
    const most = Math.max(1, Number(least ?? 1), Number(greatest || 1))
    // It does not matter which of several matches is found.
    return { text: text.length > 1 && text.endsWith("?") ? text.slice(0, -1) : text, most }
  }

  /** A character or a class, outside of brackets. */
  #single(character: string): string {
    if (character === "[") return this.#class()
    if (character === ".") {
      this.#at++
      return "[^\\x{a}\\x{d}\\x{2028}\\x{2029}]"
    }
    const boundary = this.#source.slice(this.#at, this.#at + 2)
    if (boundary === "\\b" || boundary === "\\B") {
      this.#at += 2
      return boundary
    }
    const atom = this.#atom()
    return typeof atom === "number" ? literal(atom) : `[${atom}]`
  }

  #class(): string {
    this.#at++
    const isNegated = this.#source[this.#at] === "^"
    if (isNegated) this.#at++
    let inside = ""
    while (this.#source[this.#at] !== "]") {
      const from = this.#classAtom()
      const isRange = this.#source[this.#at] === "-" && this.#source[this.#at + 1] !== "]"
      if (typeof from === "string" || !isRange) {
        inside += typeof from === "string" ? from : literal(from)
        continue
      }
      this.#at++
      inside += `${literal(from)}-${literal(this.#classAtom() as number)}`
    }
    this.#at++
    if (inside === "") return isNegated ? `[${everything}]` : `[^${everything}]`
    return `[${isNegated ? "^" : ""}${inside}]`
  }

  #classAtom(): Atom {
    if (this.#source.startsWith("\\b", this.#at)) {
      this.#at += 2
      return 8
    }
    return this.#atom()
  }

  #atom(): Atom {
    const codePoint = this.#source.codePointAt(this.#at)!
    this.#at += codePoint > 0xffff ? 2 : 1
    return codePoint === 0x5c ? this.#escape() : codePoint
  }

  /** What follows a backslash. */
  #escape(): Atom {
    const character = this.#source[this.#at++]!
    if (/[1-9]/.test(character)) throw new Unsupported(`a backreference ("\\${character}")`)
    if (character === "k") throw new Unsupported('a backreference ("\\k<…>")')
    if ("dDwW".includes(character)) return `\\${character}`
    if (character === "s") return spaces
    if (character === "S") return noSpaces
    if (character === "p" || character === "P") {
      const end = this.#source.indexOf("}", this.#at) + 1
      const property = `\\${character}${this.#source.slice(this.#at, end)}`
      this.#at = end
      return this.#properties(property)
    }
    if (character === "c") return this.#source.charCodeAt(this.#at++) % 32
    if (character === "x") return this.#hex(2)
    if (character === "u") return this.#unicode()
    return Object.hasOwn(controls, character) ? controls[character]! : character.codePointAt(0)!
  }

  #unicode(): number {
    if (this.#source[this.#at] === "{") {
      const end = this.#source.indexOf("}", this.#at)
      const digits = this.#source.slice(this.#at + 1, end)
      this.#at = end + 1
      return Number.parseInt(digits, 16)
    }
    const high = this.#hex(4)
    const isPair =
      high >= 0xd800 && high <= 0xdbff && /^\\u[dD][c-fC-F]/.test(this.#source.slice(this.#at, this.#at + 4))
    if (!isPair) return high
    this.#at += 2
    return (high - 0xd800) * 0x400 + (this.#hex(4) - 0xdc00) + 0x10000
  }

  #hex(digits: number): number {
    const value = Number.parseInt(this.#source.slice(this.#at, this.#at + digits), 16)
    this.#at += digits
    return value
  }
}
