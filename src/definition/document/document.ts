/**
 * Parses text to a value, and maps paths back to lines and columns.
 * For any text the result is a JSON value (or none) and problems; nothing is thrown.
 */
import type { Json } from "../../core/json.ts"
import { atOnce, type Work } from "../../turns.ts"
import { type DefinitionLimits, defaultLimits } from "../limits.ts"
import type { Locate, Problem } from "../problem.ts"
import { readJson } from "./json-document.ts"
import { readYaml } from "./yaml-document.ts"

export type DocumentFormat = "yaml" | "json"

export interface DocumentOptions {
  /** Default: JSON if the first character that is not white space is `{` or `[`, otherwise YAML. */
  readonly format?: DocumentFormat | undefined
  readonly limits?: Partial<DefinitionLimits>
}

export interface SourceDocument {
  readonly format: DocumentFormat
  /** The parsed value; `undefined` if the text could not be parsed. */
  readonly value: Json | undefined
  /** Syntax errors, duplicate keys and values that JSON does not have; all are E101. */
  readonly problems: readonly Problem[]
  /** Paths whose values are unknown because of these problems. */
  readonly unread?: readonly string[]
  readonly locate: Locate
}

export function parseDocument(source: string, options: DocumentOptions = {}): SourceDocument {
  return atOnce(reading(source, options))
}

/** As `parseDocument`, but yields. YAML is parsed without yielding: its library cannot be interrupted. */
export function* reading(source: string, options: DocumentOptions = {}): Work<SourceDocument> {
  const text = source.startsWith("\uFEFF") ? source.slice(1) : source
  const format: DocumentFormat = options.format ?? (/^\s*[{[]/.test(text) ? "json" : "yaml")
  const limits = { ...defaultLimits, ...options.limits }
  const tooLarge = sizeProblem(text, format, limits)
  if (tooLarge !== undefined)
    return { format, value: undefined, problems: [tooLarge], locate: () => ({ line: 1, column: 1 }) }
  const read = format === "json" ? yield* readJson(text) : readYaml(text, limits)
  return { format, ...read }
}

function sizeProblem(text: string, format: DocumentFormat, limits: DefinitionLimits): Problem | undefined {
  const bytes = Buffer.byteLength(text)
  const yaml = format === "yaml" && limits.yamlBytes < limits.documentBytes
  const limit = yaml ? limits.yamlBytes : limits.documentBytes
  if (bytes <= limit) return undefined
  const message =
    `The document has ${bytes} bytes; at most ${limit} are allowed (limit ${yaml ? "yamlBytes" : "documentBytes"}). ` +
    (yaml
      ? "Write it as JSON, which may be larger, or split it into several workflows."
      : "Split it into several workflows.")
  return { code: "E101", message, path: "", line: 1, column: 1 }
}
