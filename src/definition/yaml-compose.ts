/**
 * YAML text to the library's document tree, guarded. The library's parser is a loop but its composer recurses, and a
 * stack that runs out while V8 compiles a regular expression ends the whole process (seen with 20,000 brackets).
 * So the depth is measured on the parser's tokens, before anything recurses.
 */
import { Composer, type CST, type Document, Parser } from "yaml"

type Composed =
  | { readonly document: Document.Parsed }
  | { readonly document?: undefined; readonly message: string; readonly offset: number }

export function composeYaml(text: string, depthLimit: number): Composed {
  const tokens: CST.Token[] = []
  let documents = 0
  for (const token of new Parser().parse(text)) {
    if (token.type === "document" && ++documents > 1) {
      const message = "The text holds several YAML documents. Put each workflow in a file of its own."
      return { message, offset: token.offset }
    }
    const deep = tooDeep(token, depthLimit)
    if (deep !== undefined) {
      return {
        message: `Nested more than ${depthLimit} levels deep (limit depth). Flatten it.`,
        offset: deep,
      }
    }
    tokens.push(token)
  }
  const options = { version: "1.2", uniqueKeys: false, prettyErrors: false, resolveKnownTags: false } as const
  const composer = new Composer({ ...options, logLevel: "silent" })
  const [document] = composer.compose(tokens, true, text.length)
  return { document: document as Document.Parsed }
}

/** The offset of the first token that stands deeper than the limit. */
function tooDeep(root: CST.Token, limit: number): number | undefined {
  const open: { token: CST.Token; depth: number }[] = [{ token: root, depth: 0 }]
  while (open.length > 0) {
    const { token, depth } = open.pop()!
    // The walk over values measures exactly; this only has to keep the composer from recursing without end.
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
