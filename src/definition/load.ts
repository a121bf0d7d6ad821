import { atOnce, inTurns, type Work } from "../turns.ts"
import type { AdapterCatalog } from "./adapter.ts"
import { type CompileResult, compilation } from "./compile.ts"
import { type DocumentOptions, reading } from "./document/document.ts"
import type { HandlerCatalog } from "./handler.ts"
import type { Problem } from "./problem.ts"

export interface LoadOptions extends DocumentOptions {
  readonly handlers: HandlerCatalog
  /** For pipelines; left out: no adapter is known. */
  readonly adapters?: AdapterCatalog
}

/** Compiles text to a plan, or returns all its problems with lines and columns. */
export function loadWorkflow(text: string, options: LoadOptions): CompileResult {
  return atOnce(loading(text, options))
}

/**
 * The same without blocking the event loop: a workflow of 20,000 nodes takes half a second. YAML is parsed without
 * yielding, so the caller bounds its length (`yamlInOnePiece`).
 */
export function loadInTurns(source: string, options: LoadOptions): Promise<CompileResult> {
  return inTurns(loading(source, options))
}

function* loading(text: string, options: LoadOptions): Work<CompileResult> {
  const { value, problems, unread = [], locate } = yield* reading(text, options)
  if (value === undefined) return { problems }
  const { format: _, ...rest } = options
  const compiled = yield* compilation(value, { ...rest, locate, isPartial: unread.length > 0 })
  if (problems.length === 0) return compiled
  const known = new Set(unread)
  const causes =
    compiled.problems?.filter(({ path }) => !enclosing(path).some(outer => known.has(outer))) ?? []
  return { problems: byPlace([...problems, ...causes]) }
}

function byPlace(problems: Problem[]): Problem[] {
  return problems.sort((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0))
}

/** A path and all its prefixes: `a`, `a.b`, `a.b[0]`. */
function enclosing(path: string): string[] {
  const ends = [...path.matchAll(/[.[]/g)].map(({ index }) => index)
  return ["", ...ends.map(end => path.slice(0, end)), path]
}
