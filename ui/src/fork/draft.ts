/** The fork that a person is preparing, as a request and as a command; and what the preview contains about each node. */
import type { JsonObject, NodeStatus } from "../../../src/core/index.ts"
import type { Used } from "../model/format.ts"

export interface Quantiles {
  readonly p50: number
  readonly p90: number
}

type Usage = { readonly [name: string]: Used }

/** `POST /jobs/{job}/fork` with `dry_run`, as far as it is shown. */
export interface Preview {
  readonly reused: readonly ForkedNode[]
  readonly will_run: readonly ForkedNode[]
  readonly pinned: readonly ForkedNode[]
  readonly new: readonly ForkedNode[]
  readonly removed: readonly string[]
  readonly expected: {
    readonly duration_ms: Quantiles | null
    readonly usage: Usage | null
    readonly critical_path: readonly string[]
    readonly without_data: readonly string[]
  }
  readonly effects: { readonly unsafe: readonly string[]; readonly unknown: readonly string[] }
}

export interface ForkedNode {
  readonly node: string
  readonly reason: { readonly code: string }
  readonly because: string
  readonly items?: { readonly reused: number; readonly run: number }
  readonly effects?: "safe" | "unsafe" | "unknown"
  readonly duration_ms?: Quantiles | null
  readonly usage?: Usage | null
}

/** Of `GET /jobs/{job}/graph`: a node of the origin. */
export interface OriginNode {
  readonly id: string
  readonly status: NodeStatus
  readonly duration_ms: number | null
  readonly waited_ms?: number | null
  readonly usage?: { readonly [name: string]: number } | null
  readonly started_at: string | null
}

export type ForkKind = "reused" | "skipped" | "run" | "changed" | "pinned"

export const kindTexts: { readonly [kind in ForkKind]: string } = {
  reused: "reused",
  skipped: "skipped again",
  run: "will run",
  changed: "changed",
  pinned: "pinned",
}

export interface Verdict extends ForkedNode {
  readonly kind: ForkKind
}

/** By node: what the fork does with it. */
export function collectVerdicts(
  preview: Preview,
  origin: ReadonlyMap<string, OriginNode>,
  overrides: Draft["overrides"],
): ReadonlyMap<string, Verdict> {
  const found = new Map<string, Verdict>()
  const add = (nodes: readonly ForkedNode[], toKind: (node: ForkedNode) => ForkKind) => {
    for (const node of nodes) found.set(node.node, { ...node, kind: toKind(node) })
  }
  add(preview.reused, ({ node }) => (origin.get(node)?.status === "SKIPPED" ? "skipped" : "reused"))
  // A node that did not complete runs for that reason, also with another config.
  add(preview.will_run, ({ node, reason }) =>
    reason.code === "changed" || node in overrides ? "changed" : "run",
  )
  add(preview.new, () => "changed")
  add(preview.pinned, () => "pinned")
  return found
}

export function runs({ kind }: Verdict): boolean {
  return kind === "run" || kind === "changed"
}

export type Override = { readonly output: unknown } | { readonly config: unknown }

/** `from` and the version are in the address; the rest lives as long as the page. */
export interface Draft {
  readonly from: readonly string[]
  /** null: what the origin runs. */
  readonly version: number | null
  /** A changed definition, which is not a stored version; undefined: that of the version. */
  readonly definition?: JsonObject | undefined
  /** undefined: the input of the origin. */
  readonly input?: unknown
  readonly overrides: { readonly [node: string]: Override }
  readonly items: { readonly [node: string]: readonly number[] }
  readonly reuse: readonly string[]
  /** Fields whose text is not a valid value, or is being typed: until then the fork cannot be submitted. */
  readonly open: readonly string[]
}

export const emptyDraft: Omit<Draft, "from" | "version" | "definition"> = {
  overrides: {},
  items: {},
  reuse: [],
  open: [],
}

export function buildForkRequest(draft: Draft, workflow: string): Record<string, unknown> {
  const { from, version, definition, input, overrides, items, reuse } = draft
  return {
    ...(from.length === 0 ? {} : { from }),
    ...(version === null ? {} : { workflow: `${workflow}@${version}` }),
    ...(definition === undefined ? {} : { workflow: definition }),
    ...(input === undefined ? {} : { input }),
    ...(Object.keys(overrides).length === 0 ? {} : { overrides }),
    ...(Object.keys(items).length === 0 ? {} : { items }),
    ...(reuse.length === 0 ? {} : { reuse }),
  }
}

export interface Confirmed {
  readonly unsafe: readonly string[]
  readonly unknown: boolean
}

/** For a shell: values with other characters than these are quoted. */
export function buildForkCommand(
  jobId: string,
  draft: Draft,
  workflow: string,
  confirmed: Confirmed,
): string {
  const quoted = (text: string) => (/^[\w./:@=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)
  const parts: (readonly [string, string?])[] = [
    ...draft.from.map(node => ["--from", node] as const),
    ...(draft.version === null || draft.definition !== undefined
      ? []
      : [["--workflow", `${workflow}@${draft.version}`] as const]),
    ...(draft.definition === undefined ? [] : [["--definition", "-"] as const]),
    ...(draft.input === undefined ? [] : [["--input", JSON.stringify(draft.input)] as const]),
    ...Object.entries(draft.overrides).map(([node, override]) =>
      "output" in override
        ? (["--output", `${node}=${JSON.stringify(override.output)}`] as const)
        : (["--node-config", `${node}=${JSON.stringify(override.config)}`] as const),
    ),
    ...Object.entries(draft.items).map(([node, items]) => ["--items", `${node}=${items.join(",")}`] as const),
    ...draft.reuse.map(node => ["--reuse", node] as const),
    ...confirmed.unsafe.map(node => ["--confirm", node] as const),
    ...(confirmed.unknown ? [["--confirm-unknown"] as const] : []),
  ]
  const flags = parts.map(([flag, value]) => (value === undefined ? ` ${flag}` : ` ${flag} ${quoted(value)}`))
  // As here-document: within quotes, the shell reads it as it is.
  const text = draft.definition && ` <<'END'\n${JSON.stringify(draft.definition, null, 2)}\nEND`
  return `umbra fork ${jobId}${flags.join("")}${text ?? ""}`
}

const MOST_ITEMS = 100_000

/** `0, 3-5` as indexes, sorted; throws an error that says what is wrong. */
export function parseItems(text: string): number[] {
  const found = new Set<number>()
  for (const part of text.split(",").map(one => one.trim())) {
    if (part === "") continue
    const [, first, last = first] = /^(\d+)(?:\s*[-–]\s*(\d+))?$/.exec(part) ?? []
    if (first === undefined) throw new Error(`“${part}” is not an index or a range such as 3-5.`)
    if (Number(last) < Number(first)) throw new Error(`The range ${part} ends before it begins.`)
    if (Number(last) - Number(first) + found.size >= MOST_ITEMS) throw new Error("These are too many items.")
    for (let index = Number(first); index <= Number(last); index++) found.add(index)
  }
  return [...found].sort((a, b) => a - b)
}

/** The inverse: ranges where indexes follow each other. */
export function itemsText(items: readonly number[]): string {
  const parts: string[] = []
  for (let n = 0; n < items.length; ) {
    let end = n
    while (items[end + 1] === items[end]! + 1) end++
    parts.push(end === n ? String(items[n]) : `${items[n]}${end === n + 1 ? ", " : "-"}${items[end]}`)
    n = end + 1
  }
  return parts.join(", ")
}
