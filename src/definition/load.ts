import type { AdapterCatalog } from "./adapter.ts"
import type { CompileResult } from "./compile.ts"
import { compileWorkflow } from "./compile.ts"
import { type DocumentOptions, parseDocument } from "./document.ts"
import type { HandlerCatalog } from "./handler.ts"

export interface LoadOptions extends DocumentOptions {
  readonly handlers: HandlerCatalog
  /** For pipelines; left out, no adapter is known. */
  readonly adapters?: AdapterCatalog
}

/** Text to plan, or to everything that is wrong with it, with lines and columns. */
export function loadWorkflow(text: string, options: LoadOptions): CompileResult {
  const { value, problems, unread = [], locate } = parseDocument(text, options)
  if (value === undefined) return { problems }
  const { format: _, ...rest } = options
  const compiled = compileWorkflow(value, { ...rest, locate, isPartial: unread.length > 0 })
  if (problems.length === 0) return compiled
  const known = new Set(unread)
  const causes =
    compiled.problems?.filter(({ path }) => !enclosing(path).some(outer => known.has(outer))) ?? []
  const all = [...problems, ...causes]
  return { problems: all.sort((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0)) }
}

/** A path and all that it lies in: `a`, `a.b`, `a.b[0]`. */
function enclosing(path: string): string[] {
  const ends = [...path.matchAll(/[.[]/g)].map(({ index }) => index)
  return ["", ...ends.map(end => path.slice(0, end)), path]
}
