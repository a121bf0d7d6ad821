/**
 * The token stream with one token of look-ahead, and the bounds of parsing: nesting of the source (so that
 * recursive descent cannot exhaust the stack) and height of the tree (so that walking it cannot either).
 */

import { bind, type Given } from "../run/bind.ts"
import type { Operation } from "../run/operation.ts"
import type { Apply, Expression } from "./ast.ts"
import { Lexer, type Token } from "./lexer.ts"

/** Longest source accepted. Text costs next to nothing; tags are bounded by the lexer. */
const MAX_SOURCE = 1_000_000
/** A level of brackets takes about a dozen stack frames. */
const MAX_NESTING = 200

export class Parser {
  readonly lexer: Lexer
  current: Token
  #next: Token | null = null
  #nesting = 0

  constructor(source: string) {
    this.lexer = new Lexer(source)
    this.current = { type: "end", text: "", at: 0 }
    if (source.length > MAX_SOURCE) {
      this.fail(
        `the template has ${source.length} characters, more than ${MAX_SOURCE}; pass long text as data`,
        0,
      )
    }
  }

  fail(problem: string, at = this.current.at): never {
    return this.lexer.fail(problem, at)
  }

  /** Enters a tag: its first token becomes current. */
  enter(): void {
    this.#next = null
    this.current = this.lexer.token()
  }

  advance(): Token {
    const token = this.current
    this.current = this.#next ?? this.lexer.token()
    this.#next = null
    return token
  }

  peek(): Token {
    this.#next ??= this.lexer.token()
    return this.#next
  }

  at(text: string, type: Token["type"] = "operator"): boolean {
    return this.current.text === text && this.current.type === type
  }

  atWord(word: string): boolean {
    return this.at(word, "name")
  }

  skip(text: string, type: Token["type"] = "operator"): boolean {
    if (!this.at(text, type)) return false
    this.advance()
    return true
  }

  skipWord(word: string): boolean {
    return this.skip(word, "name")
  }

  expect(text: string, type: Token["type"] = "operator"): Token {
    if (!this.at(text, type)) this.unexpected(`"${text}"`)
    return this.advance()
  }

  name(what: string): Token {
    if (this.current.type !== "name") this.unexpected(what)
    return this.advance()
  }

  unexpected(expected: string): never {
    const { type, text } = this.current
    const found = type === "end" ? "the end of the template" : type === "string" ? "a string" : `"${text}"`
    return this.fail(`expected ${expected}, found ${found}`)
  }

  /** Leaves the tag. The text after it must not have been read yet. */
  close(): void {
    if (this.current.type !== "close") this.unexpected("the end of the tag or an operator")
  }

  nested<T>(parse: () => T): T {
    this.#nesting += 1
    if (this.#nesting > MAX_NESTING)
      this.fail(`nested deeper than ${MAX_NESTING} levels; simplify the template`)
    const result = parse()
    this.#nesting -= 1
    return result
  }

  /** Height of a node over these children. */
  over(...children: readonly ({ readonly depth: number } | null)[]): number {
    let depth = 0
    for (const child of children) if (child !== null && child.depth > depth) depth = child.depth
    if (depth >= MAX_NESTING)
      this.fail(`an expression of more than ${MAX_NESTING} operations in a row; split it with set`)
    return depth + 1
  }

  apply(use: {
    readonly operation: Operation
    readonly title: string
    readonly input: Expression
    readonly given: Given
    readonly at: number
    readonly negated?: boolean
  }): Apply {
    const { operation, title, input, at, negated = false } = use
    const bound = bind(operation, title, use.given, (problem, where) => this.fail(problem, where ?? at))
    const depth = this.over(input, ...bound.arguments, ...bound.named.map(([, value]) => value))
    return { kind: "apply", operation, title, input, ...bound, negated, at, depth }
  }
}
