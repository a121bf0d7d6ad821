/** Maps a path to its position in YAML text, through aliases, and into strings as far as their style allows. */
import {
  type Alias,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  type Scalar,
  type YAMLMap,
} from "yaml"
import type { Locate, Position } from "../problem.ts"

export type AliasTargets = Map<Alias, Node>

interface YamlSource {
  readonly text: string
  readonly position: (offset: number) => Position
  readonly aliases: AliasTargets
}

type Member = Pair<Node, Node | null>

export function yamlLocator(root: Node, source: YamlSource): Locate {
  const { text, position, aliases } = source
  const members = new Map<YAMLMap, Map<string, Member>>()
  const membersOf = (map: YAMLMap): Map<string, Member> => {
    let found = members.get(map)
    if (found === undefined) {
      found = new Map(
        (map.items as Member[]).map(pair => [isScalar(pair.key) ? String(pair.key.value) : "", pair]),
      )
      members.set(map, found)
    }
    return found
  }
  return (path, place = {}) => {
    let node: Node = root
    let key: Node = root
    for (const part of path) {
      if (isAlias(node)) node = aliases.get(node) ?? node
      const pair: Member | undefined = isMap(node) ? membersOf(node).get(String(part)) : undefined
      const next =
        isSeq(node) && typeof part === "number" ? (node.items[part] as Node | undefined) : pair?.value
      if (next === undefined || (next === null && pair === undefined)) return position(start(node))
      key = pair?.key ?? (next as Node)
      // A key without a value: there is no value to point at.
      node = next ?? key
    }
    if (place.key) return position(start(key))
    if (isAlias(node) && place.offset !== undefined) node = aliases.get(node) ?? node
    if (place.offset === undefined || !isScalar(node)) return position(start(node))
    return position(offsetInScalar(text, node, place.offset))
  }
}

const start = (node: Node): number => node.range?.[0] ?? 0

/** Exact for plain and quoted strings on one line and for `|` blocks; otherwise the start of the scalar. */
function offsetInScalar(text: string, node: Scalar, offset: number): number {
  const from = start(node)
  const raw = text.slice(from, node.range?.[1] ?? from)
  if (node.type === "BLOCK_LITERAL") return from + offsetInBlock(raw, String(node.value), offset)
  if (raw.includes("\n")) return from
  if (node.type === "PLAIN") return from + offset
  if (node.type === "QUOTE_SINGLE")
    return from + offsetInQuotes(raw, offset, at => (raw.startsWith("''", at) ? 2 : 1))
  if (node.type === "QUOTE_DOUBLE") return from + offsetInQuotes(raw, offset, at => escapeLength(raw, at))
  return from
}

function offsetInQuotes(raw: string, offset: number, lengthAt: (at: number) => number): number {
  let at = 1
  for (let i = 0; i < offset && at < raw.length - 1; i++) at += lengthAt(at)
  return at
}

const longEscapes: Readonly<Record<string, number>> = { x: 4, u: 6, U: 10 }

const escapeLength = (raw: string, at: number): number =>
  raw[at] === "\\" ? (longEscapes[raw[at + 1] ?? ""] ?? 2) : 1

/** Each line of a `|` block is a line of its value after the indentation; the first line of `raw` is the header. */
function offsetInBlock(raw: string, value: string, offset: number): number {
  const before = value.slice(0, offset)
  const line = before.split("\n").length
  const column = before.length - (before.lastIndexOf("\n") + 1)
  const rawLines = raw.split("\n")
  const wanted = rawLines[line]?.replace(/\r$/, "")
  const content = value.split("\n")[line - 1]
  if (wanted === undefined || content === undefined || !wanted.endsWith(content)) return 0
  const lineStart = rawLines.slice(0, line).reduce((sum, text) => sum + text.length + 1, 0)
  return lineStart + (wanted.length - content.length) + column
}
