/**
 * Reads a template incrementally: text up to a tag, then the tokens inside the tag. Every character is read a bounded
 * number of times, so lexing is linear for any source.
 */
import { TemplateSyntaxError } from "./syntax-error.ts"
import { isSpace, trimEnd, trimStart } from "./whitespace.ts"

export type TokenType = "name" | "string" | "number" | "operator" | "close" | "end"

export interface Token {
  readonly type: TokenType
  /** The name, operator or string; for a number its source. */
  readonly text: string
  readonly at: number
}

export type Opening = "output" | "statement" | "end"

const NAME = /[\p{ID_Start}_][\p{ID_Continue}]*/uy
const NUMBER =
  /0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[\da-fA-F])+|\d(?:_?\d)*(?:\.\d(?:_?\d)*)?(?:[eE][+-]?\d(?:_?\d)*)?/y
const OPERATOR = /\*\*|\/\/|[=!<>]=|[-+*/%~[\](){}<>=.:|,]/y
const BACKSLASH = 0x5c
const RAW = /\{%[-+]?\s*raw\s*(-?)%\}/y
const END_RAW = /\{%([-+]?)\s*endraw\s*([-+]?)%\}/y

/** Names, operators, literals and tags of one template: this many are parsed in about 10 ms. */
const MAX_TOKENS = 20_000

export class Lexer {
  readonly source: string
  #at = 0
  #tokens = 0
  /** The closing mark of the current tag. */
  #close = "}}"
  /** Open brackets in the tag: `}}` closes two of them before it closes the tag. */
  #brackets = 0
  /** The last tag ended in `-`: the white space after it is removed. */
  #trimNext = false

  constructor(source: string) {
    this.source = source
  }

  fail(problem: string, at = this.#at): never {
    throw new TemplateSyntaxError(problem, this.source, at)
  }

  /** Text up to the next tag, as pieces (a comment or `raw` separates them), and the opening mark there. */
  text(): { pieces: string[]; opening: Opening; at: number } {
    const pieces: string[] = []
    for (;;) {
      this.#count()
      const at = this.#tagStart()
      pieces.push(this.#piece(at))
      if (at === -1) return { pieces, opening: "end", at: this.source.length }
      const mark = this.source[at + 1]
      this.#at = at
      if (mark === "#") this.#skipComment()
      else if (mark === "{" || !this.#raw(pieces)) return { pieces, opening: this.#open(mark === "{"), at }
    }
  }

  #tagStart(): number {
    for (let at = this.source.indexOf("{", this.#at); at !== -1; at = this.source.indexOf("{", at + 1)) {
      const next = this.source[at + 1]
      if (next === "{" || next === "%" || next === "#") return at
    }
    return -1
  }

  /** Text from here to `end`, without the white space that `-` removes on either side. */
  #piece(end: number): string {
    let text = this.source.slice(this.#at, end === -1 ? undefined : end)
    if (this.#trimNext) text = trimStart(text)
    this.#trimNext = false
    return end !== -1 && this.source[end + 2] === "-" ? trimEnd(text) : text
  }

  #open(isOutput: boolean): Opening {
    this.#at += 2
    const control = this.source[this.#at]
    if (control === "-" || control === "+") this.#at += 1
    this.#close = isOutput ? "}}" : "%}"
    this.#brackets = 0
    return isOutput ? "output" : "statement"
  }

  #skipComment(): void {
    const end = this.source.indexOf("#}", this.#at + 2)
    if (end === -1) this.fail("this comment is never closed; expected #}")
    this.#trimNext = this.source[end - 1] === "-" && end - 1 >= this.#at + 2
    this.#at = end + 2
  }

  #raw(pieces: string[]): boolean {
    const start = this.#match(RAW)
    if (start === null) return false
    const begin = this.#at
    const from = begin + start[0].length
    for (let at = this.source.indexOf("{%", from); at !== -1; at = this.source.indexOf("{%", at + 2)) {
      this.#at = at
      const end = this.#match(END_RAW)
      if (end === null) continue
      let text = this.source.slice(from, at)
      if (start[1] === "-") text = trimStart(text)
      pieces.push(end[1] === "-" ? trimEnd(text) : text)
      this.#trimNext = end[2] === "-"
      this.#at = at + end[0].length
      return true
    }
    return this.fail("this raw block is never closed; expected {% endraw %}", begin)
  }

  #count(): void {
    this.#tokens += 1
    if (this.#tokens > MAX_TOKENS)
      this.fail(`more than ${MAX_TOKENS} tokens; split the template, or pass lists as data`)
  }

  token(): Token {
    this.#count()
    while (isSpace(this.source.charCodeAt(this.#at))) this.#at += 1
    const at = this.#at
    if (at >= this.source.length) return { type: "end", text: "", at }
    if (this.#brackets === 0 && this.#closes()) return { type: "close", text: this.#close, at }
    const first = this.source[at] as string
    if (first === '"' || first === "'") return this.#string(at)
    if (first >= "0" && first <= "9") return { type: "number", text: this.#take(NUMBER) as string, at }
    const name = this.#name()
    if (name !== null) return { type: "name", text: name, at }
    const operator = this.#take(OPERATOR)
    if (operator === null) return this.fail(`unexpected character ${JSON.stringify(first)}`)
    if ("([{".includes(operator)) this.#brackets += 1
    else if (")]}".includes(operator)) this.#brackets -= 1
    return { type: "operator", text: operator, at }
  }

  #closes(): boolean {
    const control = this.source[this.#at]
    const skip = control === "-" || (control === "+" && this.#close === "%}") ? 1 : 0
    if (!this.source.startsWith(this.#close, this.#at + skip)) return false
    this.#trimNext = control === "-"
    this.#at += skip + 2
    return true
  }

  #string(at: number): Token {
    const quote = this.source.charCodeAt(at)
    for (let end = at + 1; end < this.source.length; end++) {
      const unit = this.source.charCodeAt(end)
      if (unit === BACKSLASH) end += 1
      else if (unit === quote) {
        this.#at = end + 1
        return { type: "string", text: plain(this.source.slice(at + 1, end)), at }
      }
    }
    return this.fail("this string is never closed")
  }

  /** ASCII names without a pattern: compiling 100,000 templates takes a third less time. */
  #name(): string | null {
    const start = this.#at
    let end = start
    while (isWord(this.source.charCodeAt(end))) end += 1
    if (this.source.charCodeAt(end) > 0x7f) return this.#take(NAME)
    this.#at = end
    return end === start ? null : this.source.slice(start, end)
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at
    return pattern.exec(this.source)
  }

  #take(pattern: RegExp): string | null {
    const match = this.#match(pattern)
    if (match === null) return null
    this.#at += match[0].length
    return match[0]
  }
}

/** Letters, digits and underscore; a digit never comes first, since numbers are read before names. */
const isWord = (unit: number): boolean =>
  (unit >= 0x61 && unit <= 0x7a) ||
  (unit >= 0x41 && unit <= 0x5a) ||
  (unit >= 0x30 && unit <= 0x39) ||
  unit === 0x5f

const ESCAPE = /\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{1,3})|(.))/gs
const LETTERS: Readonly<Record<string, string>> = {
  n: "\n",
  t: "\t",
  r: "\r",
  b: "\b",
  f: "\f",
  v: "\v",
  a: "\x07",
  "\n": "",
}

/** Python's escapes; an unknown one keeps its backslash. */
function plain(text: string): string {
  if (!text.includes("\\")) return text
  return text.replace(ESCAPE, (whole, x, u, long, octal, other: string | undefined) => {
    const hex: string | undefined = x ?? u ?? long
    if (hex !== undefined) return codePoint(Number.parseInt(hex, 16), whole)
    if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8))
    if (other === "\\" || other === "'" || other === '"') return other
    return LETTERS[other as string] ?? whole
  })
}

const codePoint = (code: number, otherwise: string): string =>
  code <= 0x10ffff ? String.fromCodePoint(code) : otherwise
