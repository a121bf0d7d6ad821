/**
 * Parses JSON text. `JSON.parse` does the work; our own scanner runs only for positions, syntax errors and duplicate
 * keys, so a correct document of 20 MB costs one more pass over its text (0.1 s) and no memory.
 */

import type { Json, JsonObject } from "../../core/json.ts"
import { valueIn } from "../../core/maps.ts"
import type { Work } from "../../turns.ts"
import {
  type DocumentPath,
  formatPath,
  type Locate,
  type Place,
  type Position,
  type Problem,
} from "../problem.ts"
import { countMembers, findSyntaxFault, type JsonMember, members, skipSpace } from "./json-scan.ts"

export interface ReadDocument {
  readonly value: Json | undefined
  readonly problems: readonly Problem[]
  /** Paths whose value could not be parsed; it is null there. Problems with that null are consequences. */
  readonly unread?: readonly string[]
  readonly locate: Locate
}

export function* readJson(text: string): Work<ReadDocument> {
  const position = lineFinder(text)
  let value: Json
  try {
    value = JSON.parse(text) as Json
  } catch {
    const { offset, message } = findSyntaxFault(text)
    const problem: Problem = { code: "E101", message, path: "", ...position(offset) }
    return { value: undefined, problems: [problem], locate: () => position(offset) }
  }
  yield
  const members = countMembers(text)
  yield
  const hasDuplicates = members !== countKeys(value)
  yield
  const problems = hasDuplicates ? duplicateKeys(text, position) : []
  return { value, problems, locate: jsonLocator(text, position) }
}

function countKeys(root: Json): number {
  let count = 0
  const open: Json[] = typeof root === "object" && root !== null ? [root] : []
  while (open.length > 0) {
    const value = open.pop()!
    // By index: `in` creates a string for each key, 250 ms for two million.
    if (Array.isArray(value)) {
      for (const item of value) if (typeof item === "object" && item !== null) open.push(item)
      continue
    }
    // JSON.parse creates own keys only; `Object.values` would create a list for each of 100,000 nodes.
    for (const key in value as JsonObject) {
      const item = (value as JsonObject)[key]!
      count++
      if (typeof item === "object" && item !== null) open.push(item)
    }
  }
  return count
}

type FindPosition = ReturnType<typeof lineFinder>

function duplicateKeys(text: string, position: FindPosition): Problem[] {
  const problems: Problem[] = []
  const open: { at: number; path: DocumentPath }[] = [{ at: skipSpace(text, 0), path: [] }]
  while (open.length > 0) {
    const { at, path } = open.pop()!
    const first = new Map<string | number, number>()
    for (const { key, keyAt, valueAt } of members(text, at)) {
      const memberPath = [...path, key]
      const earlier = first.get(key)
      if (earlier === undefined) first.set(key, keyAt)
      else problems.push(duplicateKey(memberPath, position(keyAt), position(earlier)))
      if (text[valueAt] === "{" || text[valueAt] === "[") open.push({ at: valueAt, path: memberPath })
    }
  }
  return problems
}

export function duplicateKey(
  path: DocumentPath,
  at: { line: number; column: number },
  first: { line: number },
): Problem {
  const key = JSON.stringify(path.at(-1))
  const message = `Duplicate key ${key}, first on line ${first.line}. Remove one of them.`
  return { code: "E101", message, path: formatPath(path), ...at }
}

/**
 * Each mapping or list on the path is scanned once, as far as needed, and remembered: so many problems in one place are
 * found in linear time, and so is one deep inside a long document.
 */
function jsonLocator(text: string, position: FindPosition): Locate {
  const scanned = new Map<number, Scanned>()
  const memberAt = (at: number, key: string | number): JsonMember | undefined => {
    const { found, rest } = valueIn(scanned, at, () => ({ found: new Map(), rest: members(text, at) }))
    while (!found.has(key)) {
      const { done, value } = rest.next()
      if (done) break
      found.set(value.key, value)
    }
    return found.get(key)
  }
  return (path: DocumentPath, place: Place = {}) => {
    let at = skipSpace(text, 0)
    let keyAt = at
    for (const part of path) {
      const member = memberAt(at, part)
      if (member === undefined) return position(at)
      at = member.valueAt
      keyAt = member.keyAt
    }
    if (place.key) return position(keyAt)
    if (place.offset !== undefined && text[at] === '"')
      return position(offsetInString(text, at, place.offset))
    return position(at)
  }
}

interface Scanned {
  readonly found: Map<string | number, JsonMember>
  readonly rest: Generator<JsonMember, void, undefined>
}

/** The position in the text of character `offset` of the string's value; escapes are longer in the text. */
function offsetInString(text: string, at: number, offset: number): number {
  let here = at + 1
  for (let i = 0; i < offset && text[here] !== '"'; i++) {
    if (text[here] !== "\\") here++
    else here += text[here + 1] === "u" ? 6 : 2
  }
  return here
}

/** Converts offsets to lines and columns. The table of lines is built at first use: most documents have no problem. */
export function lineFinder(text: string): (offset: number) => Position {
  let starts: number[] | undefined
  return offset => {
    starts ??= lineStarts(text)
    let low = 0
    let high = starts.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (starts[middle]! <= offset) low = middle
      else high = middle - 1
    }
    return { line: low + 1, column: offset - starts[low]! + 1 }
  }
}

function lineStarts(text: string): number[] {
  const starts = [0]
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) starts.push(at + 1)
  return starts
}
