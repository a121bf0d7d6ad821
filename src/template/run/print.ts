/** Converts values to text: strings unchanged, everything else as JSON. The size is counted before the text is built. */
import type { Json } from "../../core/json.ts"
import { cannot, type Run } from "../run.ts"
import { isList } from "./values.ts"

/** The text of a value; a string is returned unchanged and costs nothing. */
export function print(run: Run, value: Json): string {
  if (typeof value === "string") return value
  if (typeof value === "object" && value !== null) return printJson(run, value, 0)
  run.text(8)
  return String(value)
}

export function printJson(run: Run, value: Json, indent: number): string {
  run.text(jsonLength(run, value, indent, 0))
  return JSON.stringify(value, null, indent)
}

/** Spaces per level that `JSON.stringify` accepts. */
const MAX_INDENT = 10

export function checkIndent(indent: number): number {
  if (indent < 0 || indent > MAX_INDENT) throw cannot(`tojson: indent must be 0 to ${MAX_INDENT}`)
  return indent
}

function jsonLength(run: Run, value: Json, indent: number, depth: number): number {
  run.step()
  if (typeof value === "string") return quotedLength(run, value)
  if (typeof value !== "object" || value === null) return String(value).length
  run.nested(depth)
  const line = indent === 0 ? 0 : 1 + indent * (depth + 1)
  let length = 2 + line
  if (isList(value)) {
    for (const item of value) length += 1 + line + jsonLength(run, item, indent, depth + 1)
    return length
  }
  for (const key of run.keys(value)) {
    length += 2 + line + quotedLength(run, key) + jsonLength(run, value[key] as Json, indent, depth + 1)
  }
  return length
}

/** An escape takes up to six characters, so uncounted text could grow sixfold. */
function quotedLength(run: Run, text: string): number {
  run.scan(text.length * 2)
  let length = text.length + 2
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x20 || (unit >= 0xd800 && unit <= 0xdfff)) length += 5
    else if (unit === 0x22 || unit === 0x5c) length += 1
  }
  return length
}
