/** Mutants that no test can catch, or that none should, each with the reason. */
import type { Mutant } from "./instrument.ts"

interface Explanation {
  readonly file: string
  /** The changed source text with what stands around it, `→`, and what it became. */
  readonly line: string
  readonly replacement: string
  readonly why: string
}

const swapped = "const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]"

const EXPLANATIONS: readonly Explanation[] = [
  ...["i >= 1", "j >= 1"].map(replacement => ({
    ...{ file: "src/template/nearest.ts", line: swapped, replacement },
    why: "Before the first character there is none: the comparison with it is false anyway.",
  })),
  {
    file: "src/core/apply/apply.ts",
    line: "if (waiting.size === 0) return []",
    replacement: "-1",
    why: "A short cut: the list of no waits is empty too.",
  },
  {
    file: "src/core/apply/restart.ts",
    line: "for (let node = 0; node < state.nodeStatus.length; node++) {",
    replacement: "-1",
    why: "There is no node -1: typed arrays ignore it, and nothing reads it from the maps.",
  },
  {
    file: "src/core/decide/external.ts",
    line: 'const asked = result.type === "error" ? (result.fault.retry_after_seconds ?? 0) : 0',
    replacement: "-1",
    why: "The planned time is never before now, and the later of the two counts.",
  },
  {
    file: "src/core/pipeline/concurrency.ts",
    line: "#mostInFlight = 0",
    replacement: "-1",
    why: "The first message that ends raises it to 1 at least.",
  },
  {
    file: "src/core/view/attempt-history.ts",
    line: "const queued_at = this.#queuedAt ?? state.queuedAt[node]!",
    replacement: "(state.queuedAt[node]!)",
    why: "An attempt that is lost before it began keeps its time in the state too.",
  },
  {
    file: "src/definition/document/json-document.ts",
    line: "count++",
    replacement: "count--",
    why: "Then every document is searched for duplicate keys, which finds the same.",
  },
  {
    file: "src/definition/document/json-scan.ts",
    line: "while (end !== -1 && isEscaped(text, end)) end = text.indexOf('\"', end + 1)",
    replacement: "1",
    why: "The text is JSON: every string has its closing quote.",
  },
  {
    file: "src/core/apply/apply.ts",
    line: 'if (state.status === "DISPATCHING" || state.status === "PREVIEW") state.status = "PROCESSING"',
    replacement: "true",
    why: "A fact about a node reaches a job in one of these two states, or in PROCESSING.",
  },
  {
    file: "src/definition/document/issues.ts",
    line: "if (issues.length === 0) return source",
    replacement: "",
    why: "A short cut: without issues the copy is equal.",
  },
  {
    file: "src/definition/document/yaml-document.ts",
    line: 'if ("anchor" in node && node.anchor !== undefined && this.#aliasDepth === 0)',
    replacement: '"anchor" in node || node.anchor !== undefined',
    why: "Then nodes without an anchor are stored under no name, which no alias has.",
  },
  {
    file: "src/core/apply/apply.ts",
    line: "if (state.waiting.size + state.unfollowed.size > 0) abandonAll(state, effects)",
    replacement: "true",
    why: "A short cut: without operations nothing is abandoned, and nothing is polled.",
  },
  {
    file: "src/core/apply/apply.ts",
    line: "for (let node = 0; node < state.remaining.length; node++)",
    replacement: "-1",
    why: "There is no node -1: the dependencies that remain for it are undefined, which is not 0.",
  },
  {
    file: "src/core/pipeline/breaker.ts",
    line: "#openUntil = 0",
    replacement: "1",
    why: "It is read only while the breaker is open, and set when it opens.",
  },
  {
    file: "src/core/view/json-diff.ts",
    line: 'else if (typeof next.value === "string") text += JSON.stringify(next.value.slice(0, SHOWN + 1))',
    replacement: "0",
    why: "With its quote the text of so many characters is too long already, and is cut before its last.",
  },
  {
    file: "src/definition/document/yaml-compose.ts",
    line: 'const options = { version: "1.2", uniqueKeys: false, prettyErrors: false, resolveKnownTags: false } as const',
    replacement: "true",
    why: "The composer alone does not read it: only the functions that also parse do.",
  },
  {
    file: "src/definition/graph/cycles.ts",
    line: "for (let root = 0; root < count; root++) {",
    replacement: "-1",
    why: "There is no node -1: its index is undefined, which counts as visited.",
  },
  {
    file: "src/template/parse/lexer.ts",
    line: 'for (let at = this.source.indexOf("{%", from); at !== -1; at = this.source.indexOf("{%", at + 2)) {',
    replacement: "1",
    why: "Where a tag begins none begins one character later.",
  },
  {
    file: "src/template/parse/template.ts",
    line: "const tallest = branches.reduce((most, { test, body }) => Math.max(most, p.over(test), height(p, body)), 0)",
    replacement: "-1",
    why: "There is at least one branch, and no height is below 0.",
  },
  {
    file: "src/template/run/values.ts",
    line: "if (!SURROGATE.test(text)) return text.length",
    replacement: "",
    why: "A short cut: without surrogates there are as many characters as units.",
  },
]

export function explanationOf({ file, start, replacement }: Mutant, text: string): string | null {
  const from = text.lastIndexOf("\n", start - 1) + 1
  const line = text.slice(from, text.indexOf("\n", start)).trim()
  const known = EXPLANATIONS.find(
    one => one.file === file && one.line === line && one.replacement === replacement,
  )
  return known?.why ?? null
}
