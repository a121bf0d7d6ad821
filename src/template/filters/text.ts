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
import { print } from "../run/print.ts"
import { characterCount, isList, isMapping, sequence, substring, typeName } from "../run/values.ts"
import { cannot, type Run } from "../run.ts"
import { follow, parts } from "./attribute.ts"
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

function lengthOf(run: Run, value: Json): number {
  if (typeof value === "string") return characterCount(run, value)
  if (isList(value)) return value.length
  if (isMapping(value)) return run.keys(value).length
  throw cannot(`a ${typeName(value)} has no length; a list, mapping or string has`)
}

const length = operation("", lengthOf)

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
