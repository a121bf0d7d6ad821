/**
 * A JSON value as YAML, for people to read and edit. What it writes, a YAML parser reads back as the same value; keys keep
 * their order.
 */
import type { Json } from "../../../src/core/index.ts"

/** Texts that need no quotes: they cannot be taken for anything else. */
const plain = /^[A-Za-z_/][A-Za-z0-9_./@-]*(?: [A-Za-z0-9_./@-]+)*$/
const reserved = /^(?:true|false|null|yes|no|on|off)$/i
/** Written in one line, if they are this short. */
const SHORT_LIST = 60

export function toYaml(value: Json): string {
  const text = isContainer(value) && countEntries(value) > 0 ? block(value, 0) : `${scalar(value)}\n`
  return text.startsWith("\n") ? text.slice(1) : text
}

type Container = readonly Json[] | { readonly [key: string]: Json }

function isContainer(value: Json): value is Container {
  return typeof value === "object" && value !== null
}

function countEntries(value: Container): number {
  return Array.isArray(value) ? value.length : Object.keys(value).length
}

/** Begins with a new line. */
function block(value: Container, depth: number): string {
  const pad = "  ".repeat(depth)
  if (Array.isArray(value))
    return `\n${(value as readonly Json[]).map(item => entry(item, pad, depth)).join("")}`
  return `\n${Object.entries(value)
    .map(([key, item]) => `${pad}${keyText(key)}:${after(item, depth)}`)
    .join("")}`
}

/** One entry of a list: the first key of a mapping stands beside the dash. */
function entry(item: Json, pad: string, depth: number): string {
  const isMapping = isContainer(item) && !Array.isArray(item) && countEntries(item) > 0
  if (isMapping)
    return `${pad}- ${block(item, depth + 1)
      .slice(1)
      .trimStart()}`
  if (isContainer(item) && countEntries(item) > 0 && !isShort(item)) return `${pad}-${block(item, depth + 1)}`
  return `${pad}-${after(item, depth)}`
}

/** What follows a key or a dash, with the end of the line. */
function after(item: Json, depth: number): string {
  if (isContainer(item) && countEntries(item) > 0 && !isShort(item)) return block(item, depth + 1)
  if (typeof item === "string" && isLong(item)) return literal(item, depth + 1)
  return ` ${scalar(item)}\n`
}

function isLong(text: string): boolean {
  // A literal keeps its lines as they are only if they neither begin nor end with what YAML reads otherwise.
  return text.includes("\n") && !/^[\s]|[\t ]\n|[\t ]$|\r|\n\n$|^\n/.test(text) && isPrintable(text)
}

function isPrintable(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what YAML does not print
  return !/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff\p{Surrogate}]/u.test(text)
}

function literal(text: string, depth: number): string {
  const pad = "  ".repeat(depth)
  const isEnded = text.endsWith("\n")
  const lines = (isEnded ? text.slice(0, -1) : text).split("\n")
  return ` |${isEnded ? "" : "-"}\n${lines.map(line => (line === "" ? "\n" : `${pad}${line}\n`)).join("")}`
}

/** Lists of simple values, in one line. */
function isShort(value: Container): boolean {
  if (!Array.isArray(value)) return false
  const list = value as readonly Json[]
  return list.every(item => !isContainer(item)) && flow(list).length <= SHORT_LIST
}

function flow(list: readonly Json[]): string {
  return `[${list.map(scalar).join(", ")}]`
}

function scalar(value: Json): string {
  if (typeof value === "string") return isPlain(value) ? value : JSON.stringify(value)
  if (!isContainer(value)) return JSON.stringify(value)
  return Array.isArray(value) ? flow(value as readonly Json[]) : "{}"
}

function isPlain(text: string): boolean {
  return plain.test(text) && !reserved.test(text)
}

function keyText(key: string): string {
  return isPlain(key) ? key : JSON.stringify(key)
}
