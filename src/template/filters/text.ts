import type { Json } from "../../core/json.ts"
import { lineBreakCount, lines, words } from "../parse/whitespace.ts"
import {
  flag,
  type Given,
  type Operation,
  operation,
  shortText,
  text,
  wholeNumber,
} from "../run/operation.ts"
import { checkIndent, print, printJson } from "../run/print.ts"
import { characterCount, isList, isMapping, sequence, substring, typeName } from "../run/values.ts"
import { cannot, type Run } from "../run.ts"
import { follow, parts } from "./lists.ts"
import { capitalize, join, recase, replace, splitText, strip, title } from "./text-work.ts"

/** As in Jinja, text filters accept any value and use its text. */
const onText = (signature: string, apply: (run: Run, value: string, given: Given) => Json): Operation =>
  operation(signature, (run, value, given) => apply(run, print(run, value), given))

function truncate(run: Run, value: string, [length, killwords, end, leeway]: Given): string {
  const most = wholeNumber(length, "length", 255)
  const tail = text(end, "end", "...")
  const room = most - characterCount(run, tail)
  const slack = leeway === undefined || leeway === null ? 5 : wholeNumber(leeway, "leeway", 5)
  if (room < 0) throw cannot("truncate: length must not be less than the length of end")
  if (slack < 0) throw cannot("truncate: leeway must not be negative")
  if (characterCount(run, value) <= most + slack) return value
  const kept = substring(run, value, 0, room)
  const space = flag(run, killwords, false) ? -1 : kept.lastIndexOf(" ")
  run.text(kept.length + tail.length)
  return (space === -1 ? kept : kept.slice(0, space)) + tail
}

const MAX_INDENT = 1000

function indent(run: Run, value: string, [width, first, blank]: Given): string {
  const by = typeof width === "string" ? width : spaces(wholeNumber(width, "width", 4))
  shortText(run, by, "width", MAX_INDENT)
  run.scan(value.length * 4)
  const most = lineBreakCount(value) + 1
  run.items(most * 2)
  run.text(value.length + 1 + most * (by.length + 1))
  const all = lines(`${value}\n`)
  const withBlank = flag(run, blank, false)
  const rest = all.slice(1).map(line => (line !== "" || withBlank ? by + line : line))
  return (flag(run, first, false) ? by : "") + [all[0] ?? "", ...rest].join("\n")
}

function spaces(width: number): string {
  if (width > MAX_INDENT) throw cannot(`indent: width must be at most ${MAX_INDENT}`)
  return " ".repeat(Math.max(0, width))
}

function joinFilter(run: Run, value: Json, [by, attribute]: Given): string {
  const path = attribute === undefined || attribute === null ? null : parts(attribute)
  const items = path === null ? value : sequence(run, value).map(item => follow(run, item, path))
  return join(run, items, by === undefined ? "" : print(run, by))
}

function measureLength(run: Run, value: Json): number {
  if (typeof value === "string") return characterCount(run, value)
  if (isList(value)) return value.length
  if (isMapping(value)) return run.keys(value).length
  throw cannot(`a ${typeName(value)} has no length; a list, mapping or string has`)
}

const length = operation("", measureLength)

export const textFilters: readonly (readonly [string, Operation])[] = [
  ["upper", onText("", (run, value) => recase(run, value, whole => whole.toUpperCase()))],
  ["lower", onText("", (run, value) => recase(run, value, whole => whole.toLowerCase()))],
  ["title", onText("", title)],
  ["capitalize", onText("", capitalize)],
  ["trim", onText("chars?", (run, value, [chars]) => strip(run, value, chars, "both"))],
  [
    "replace",
    onText("old new count?", (run, value, [old, by, count]) =>
      replace(
        run,
        value,
        print(run, old as Json),
        print(run, by as Json),
        wholeNumber(count ?? undefined, "count", -1),
      ),
    ),
  ],
  ["join", operation("d? attribute?", joinFilter)],
  [
    "split",
    operation("sep? maxsplit?", (run, value, [sep, most]) =>
      splitText(run, text(value, "the input of split"), sep, wholeNumber(most, "maxsplit", -1)),
    ),
  ],
  ["truncate", onText("length? killwords? end? leeway?", truncate)],
  [
    "indent",
    operation("width? first? blank?", (run, value, given) =>
      indent(run, text(value, "the input of indent"), given),
    ),
  ],
  [
    "wordcount",
    onText("", (run, value) => {
      run.items(value.length / 2)
      return words(value).length
    }),
  ],
  ["string", onText("", (_run, value) => value)],
  ["length", length],
  ["count", length],
]

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
