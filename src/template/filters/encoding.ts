import type { Json } from "../../core/json.ts"
import { type Operation, operation, text, wholeNumber } from "../run/operation.ts"
import { checkIndent, print, printJson } from "../run/print.ts"
import { isList, isMapping } from "../run/values.ts"
import { cannot, type Run } from "../run.ts"

/** Limits nesting and size of JSON text before it is parsed: `[` × 1,000,000 must not become a million lists. */
function measure(run: Run, source: string): void {
  run.scan(source.length * 4)
  let depth = 0
  let size = 0
  let quoted = false
  for (let i = 0; i < source.length; i++) {
    const unit = source.charCodeAt(i)
    if (unit === 0x22) quoted = !quoted
    else if (quoted) i += unit === 0x5c ? 1 : 0
    else if (unit === 0x5b || unit === 0x7b) {
      depth += 1
      size += 8
      run.nested(depth)
    } else if (unit === 0x5d || unit === 0x7d) depth -= 1
    else if (unit === 0x2c) size += 2
  }
  run.items(size)
  run.text(source.length)
}

function fromJson(run: Run, value: Json): Json {
  const source = text(value, "the input of fromjson")
  measure(run, source)
  try {
    return JSON.parse(source) as Json
  } catch {
    // The parser's own message quotes the text, which may contain a secret.
    throw cannot("fromjson: the text is not valid JSON")
  }
}

function toJson(run: Run, value: Json, [indent]: readonly (Json | undefined)[]): string {
  return printJson(run, value, checkIndent(wholeNumber(indent ?? undefined, "indent", 0)))
}

const ENCODED = 9

function quote(run: Run, value: Json, keepSlash: boolean): string {
  const source = print(run, value)
  run.text(source.length * ENCODED)
  let encoded: string
  try {
    encoded = encodeURIComponent(source)
  } catch {
    throw cannot("urlencode: the text contains a lone surrogate")
  }
  const strict = encoded.replace(/[!'()*]/g, each => `%${each.charCodeAt(0).toString(16).toUpperCase()}`)
  return keepSlash ? strict.replaceAll("%2F", "/") : strict.replaceAll("%20", "+")
}

/** A string becomes part of a path; a mapping or a list of pairs becomes a query. */
function urlEncode(run: Run, value: Json): string {
  const pairs = isMapping(value) ? run.keys(value).map(key => [key, value[key] as Json]) : value
  if (!isList(pairs)) return quote(run, value, true)
  const parts = pairs.map(pair => {
    if (!isList(pair) || pair.length !== 2)
      throw cannot("urlencode: a list must contain pairs of key and value")
    return `${quote(run, pair[0] as Json, false)}=${quote(run, pair[1] as Json, false)}`
  })
  return parts.join("&")
}

function encode(run: Run, value: Json): string {
  const source = print(run, value)
  run.text(source.length * 4)
  return Buffer.from(source, "utf8").toString("base64")
}

const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/

function decode(run: Run, value: Json): string {
  const source = text(value, "the input of b64decode")
  run.text(source.length * 2)
  const packed = source.replace(/\s+/g, "")
  if (!BASE64.test(packed)) throw cannot("b64decode: the text is not base64")
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.from(packed, "base64"))
  } catch {
    throw cannot("b64decode: the decoded bytes are not UTF-8 text")
  }
}

export const encodingFilters: readonly (readonly [string, Operation])[] = [
  ["tojson", operation("indent?", toJson)],
  ["fromjson", operation("", fromJson)],
  ["urlencode", operation("", urlEncode)],
  ["b64encode", operation("", encode)],
  ["b64decode", operation("", decode)],
]
