import type { CompileResult } from "./compile.ts"
import { compileWorkflow } from "./compile.ts"
import { type DocumentOptions, parseDocument } from "./document.ts"
import type { HandlerCatalog } from "./handler.ts"

export interface LoadOptions extends DocumentOptions {
  readonly handlers: HandlerCatalog
}

/** Text to plan, or to everything that is wrong with it, with lines and columns. */
export function loadWorkflow(text: string, options: LoadOptions): CompileResult {
  const { value, problems, unread = [], locate } = parseDocument(text, options)
  if (value === undefined) return { problems }
  const { handlers, limits } = options
  const compiled = compileWorkflow(value, { handlers, locate, ...(limits === undefined ? {} : { limits }) })
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
