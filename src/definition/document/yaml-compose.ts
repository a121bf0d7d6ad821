/**
 * Parses YAML text to the library's document tree, with limits. The library's parser is a loop but its composer recurses,
 * and a stack overflow while V8 compiles a regular expression ends the whole process (seen with 20,000 brackets). So the
 * depth is measured on the parser's tokens, before anything recurses. Parsing stops early if more brackets are open than
 * the limit: two million brackets took 14 s.
 */
import { Composer, type CST, type Document, Lexer, Parser } from "yaml"

/**
 * Nobody corrects more errors at a time, and each takes a kilobyte: a document of unmatched brackets would take gigabytes.
 * Directives, which are never needed, count too: each is compared with all before it.
 */
const MOST_FAULTS = 1000

type Composed =
  | { readonly document: Document.Parsed }
  | { readonly document?: undefined; readonly message: string; readonly offset: number }

export function composeYaml(text: string, depthLimit: number): Composed {
  // The library creates an Error per fault: their stack traces take more time than the parsing itself.
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  try {
    return compose(text, depthLimit)
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

function compose(text: string, depthLimit: number): Composed {
  const tooDeepAt = (offset: number) => ({
    message: `Nested more than ${depthLimit} levels deep (limit depth). Flatten it.`,
    offset,
  })
  const tokens: CST.Token[] = []
  const opened = new Opened()
  let documents = 0
  let faults = 0
  for (const token of parsed(text, opened, 2 * depthLimit)) {
    if (token.type === "document" && ++documents > 1) {
      const message = "The text contains several YAML documents. Put each workflow into its own file."
      return { message, offset: token.offset }
    }
    const deep = tooDeep(token, depthLimit)
    if (deep !== undefined) return tooDeepAt(deep)
    tokens.push(token)
    if ((token.type === "error" || token.type === "directive") && ++faults === MOST_FAULTS) break
  }
  if (opened.depth > 2 * depthLimit) return tooDeepAt(opened.offset)
  const options = { version: "1.2", uniqueKeys: false, prettyErrors: false, resolveKnownTags: false } as const
  const composer = new Composer({ ...options, logLevel: "silent" })
  const [document] = composer.compose(tokens, true, text.length)
  return { document: document as Document.Parsed }
}

/** Stops early where more than `most` are open. */
function* parsed(text: string, opened: Opened, most: number): Generator<CST.Token, void> {
  const parser = new Parser()
  for (const lexeme of new Lexer().lex(text)) {
    opened.read(lexeme)
    if (opened.depth > most) return
    yield* parser.next(lexeme)
  }
  yield* parser.end()
}

/** Lexemes without a character in the text: a document starts, brackets end with it, a scalar follows. */
const [DOCUMENT, FLOW_END, SCALAR] = ["\x02", "\x18", "\x1f"]

/** Open brackets, and the `- - -` of a line, each of which is nested in the one before. */
class Opened {
  offset = 0
  #brackets = 0
  #dashes = 0
  #isScalar = false
  #last = 0

  get depth(): number {
    return this.#brackets + this.#dashes
  }

  read(lexeme: string): void {
    this.offset += this.#last
    const isMark = lexeme === DOCUMENT || lexeme === FLOW_END || lexeme === SCALAR
    this.#last = isMark ? 0 : lexeme.length
    if (!this.#isScalar) this.#count(lexeme)
    this.#isScalar = lexeme === SCALAR
  }

  #count(lexeme: string): void {
    if (lexeme === "[" || lexeme === "{") this.#brackets++
    else if (lexeme === "]" || lexeme === "}") this.#brackets = Math.max(0, this.#brackets - 1)
    else if (lexeme === FLOW_END) this.#brackets = 0
    else if (lexeme === "-" || lexeme === "?") this.#dashes++
    else if (lexeme.endsWith("\n")) this.#dashes = 0
  }
}

/** The offset of the first token that is deeper than the limit. */
function tooDeep(root: CST.Token, limit: number): number | undefined {
  const open: { token: CST.Token; depth: number }[] = [{ token: root, depth: 0 }]
  while (open.length > 0) {
    const { token, depth } = open.pop()!
    // The walk over the values measures exactly; this only protects the composer from unbounded recursion.
    if (depth > 2 * limit) return token.offset
    if (token.type === "document" && token.value !== undefined) open.push({ token: token.value, depth })
    if (!("items" in token)) continue
    for (const { key, value } of token.items) {
      if (key && "items" in key) open.push({ token: key, depth: depth + 1 })
      if (value && "items" in value) open.push({ token: value, depth: depth + 1 })
    }
  }
  return undefined
}
