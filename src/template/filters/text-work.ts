/** The implementation of text filters and of the methods with the same name. */
import type { Json, JsonObject } from "../../core/json.ts"
import { isSpace, trimEnd, trimStart, words } from "../parse/whitespace.ts"
import { text } from "../run/operation.ts"
import { occurrences } from "../run/operators.ts"
import { print } from "../run/print.ts"
import { characters, isMapping, sequence, typeName } from "../run/values.ts"
import { cannot, type Run } from "../run.ts"

const BEYOND_ASCII = /[\u0080-\uffff]/

/** Text becomes at most three times as long when its case changes ("ŉ", "ΐ"). */
export function recase(run: Run, value: string, change: (text: string) => string): string {
  run.text(value.length)
  // Beyond ASCII the conversion uses Unicode tables, some 20 ns per character.
  if (BEYOND_ASCII.test(value)) run.step(Math.floor(value.length / 8))
  const result = change(value)
  run.text(Math.max(0, result.length - value.length))
  return result
}

export function capitalize(run: Run, value: string): string {
  const first = String.fromCodePoint(value.codePointAt(0) ?? 0x20)
  if (value === "") return value
  return recase(run, value, whole => first.toUpperCase() + whole.slice(first.length).toLowerCase())
}

const OPENING = new Set(["-", "(", "{", "[", "<"])

/** Capitalizes after white space, hyphens and opening brackets, and nowhere else. */
export function title(run: Run, value: string): string {
  run.scan(value.length * 4)
  return recase(run, value, whole => {
    const lower = whole.toLowerCase()
    const parts: string[] = []
    let from = 0
    for (let i = 0, atStart = true; i < lower.length; i++) {
      const separates = OPENING.has(lower[i] as string) || isSpace(lower.charCodeAt(i))
      if (atStart && !separates) {
        run.items(2)
        const first = String.fromCodePoint(lower.codePointAt(i) as number)
        parts.push(lower.slice(from, i), first.toUpperCase())
        from = i + first.length
      }
      atStart = separates
    }
    return parts.join("") + lower.slice(from)
  })
}

export function strip(
  run: Run,
  value: string,
  chars: Json | undefined,
  side: "start" | "end" | "both",
): string {
  run.text(value.length)
  run.scan(value.length)
  if (chars === undefined || chars === null) {
    const start = side === "end" ? value : trimStart(value)
    return side === "start" ? start : trimEnd(start)
  }
  const unwanted = new Set(characters(run, text(chars, "chars")))
  const list = characters(run, value)
  let from = 0
  let to = list.length
  if (side !== "end") while (from < to && unwanted.has(list[from] as string)) from += 1
  if (side !== "start") while (to > from && unwanted.has(list[to - 1] as string)) to -= 1
  return list.slice(from, to).join("")
}

export function splitText(run: Run, value: string, separator: Json | undefined, most: number): string[] {
  run.text(value.length)
  if (separator === undefined || separator === null) return splitWords(run, value, most)
  const by = text(separator, "sep")
  if (by === "") throw cannot("the separator of split must not be empty")
  const found = occurrences(run, value, by, most < 0 ? Number.POSITIVE_INFINITY : most)
  run.items(found.length + 1)
  const starts = [0, ...found.map(at => at + by.length)]
  return starts.map((from, i) => value.slice(from, found[i]))
}

function splitWords(run: Run, value: string, most: number): string[] {
  run.items(value.length / 2)
  run.scan(value.length)
  const all = words(value)
  if (most < 0 || all.length <= most) return all
  // The rest keeps its inner white space.
  let rest = trimStart(value)
  for (const word of all.slice(0, most)) rest = rest.slice(word.length) && trimStart(rest.slice(word.length))
  run.step(most)
  return [...all.slice(0, most), rest]
}

export function replace(run: Run, value: string, old: string, by: string, count: number): string {
  if (old === "") return interleave(run, value, by, count)
  const found = occurrences(run, value, old, count < 0 ? Number.POSITIVE_INFINITY : count)
  run.text(value.length + found.length * (by.length - old.length))
  const parts: string[] = []
  let from = 0
  for (const at of found) {
    parts.push(value.slice(from, at), by)
    from = at + old.length
  }
  parts.push(value.slice(from))
  return parts.join("")
}

/** Replacing the empty string inserts the new text before every character and at the end. */
function interleave(run: Run, value: string, by: string, count: number): string {
  const list = characters(run, value)
  const times = count < 0 ? list.length + 1 : Math.min(count, list.length + 1)
  run.text(value.length + times * by.length)
  return [...list.map((each, i) => (i < times ? by + each : each)), times > list.length ? by : ""].join("")
}

export function join(run: Run, value: Json, by: string): string {
  const parts = sequence(run, value).map(item => {
    run.step()
    return print(run, item)
  })
  let length = Math.max(0, parts.length - 1) * by.length
  for (const part of parts) length += part.length
  run.text(length)
  return parts.join(by)
}

export function listPairs(run: Run, value: Json): Json {
  if (!isMapping(value)) throw cannot(`items needs a mapping, not a ${typeName(value)}`)
  const keys = run.keys(value)
  run.items(keys.length * PAIR)
  return keys.map(key => [key, (value as JsonObject)[key] as Json])
}

/** A list of two items costs about as much as this many items. */
const PAIR = 8
