/** A comparison of two jobs, as the server returns it, and the texts of its parts. */
import type { JobStatus, NodeStatus } from "../../../src/core/index.ts"

type Sums = { readonly [name: string]: number }

export interface ComparedSide {
  readonly job_id: string
  readonly workflow: string
  readonly workflow_version: number | null
  readonly status: JobStatus
  readonly took_ms: number
  readonly usage: Sums
}

interface NodeSide {
  readonly status: NodeStatus
  readonly attempts: number
  readonly began_ms: number | null
  readonly took_ms: number | null
  readonly usage: Sums
  readonly error: { readonly code: string; readonly message: string } | null
  readonly output?: string | null
}

export interface ComparedNode {
  readonly id: string
  readonly a: NodeSide | null
  readonly b: NodeSide | null
  readonly same_definition: boolean
  readonly same_inputs: boolean | null
  readonly same_output: boolean | null
  readonly by_hash?: true
  readonly delta: { readonly took_ms: number | null; readonly attempts: number; readonly usage: Sums } | null
  readonly divergence: string | null
}

interface Divergence {
  readonly kind: "input" | "only_a" | "only_b" | "definition" | "status" | "output"
  readonly node: string | null
}

interface Place {
  readonly seq: number
  readonly index: number
  readonly at: string
}

export interface ValueChange {
  readonly path: string
  readonly kind: "added" | "removed" | "changed"
  readonly a?: string
  readonly b?: string
}

export interface ValueDiff {
  readonly node: string
  readonly changes?: readonly ValueChange[]
  readonly complete?: boolean
  readonly not_compared?: "missing" | "too_large"
}

export interface Comparison {
  readonly a: ComparedSide
  readonly b: ComparedSide
  readonly same_definition: boolean
  readonly same_input: boolean | null
  readonly input_by_hash?: true
  readonly divergence: Divergence | null
  readonly delta: { readonly took_ms: number | null; readonly usage: Sums }
  readonly nodes: readonly ComparedNode[]
  readonly complete: boolean
  readonly moments: { readonly a: Place; readonly b: Place }
  readonly diffs?: readonly ValueDiff[]
}

const byHash = " by hash, too large to compare by value"

/** One sentence: where the jobs differ first, and why that is not a consequence of something earlier. */
export function divergenceText({ divergence, nodes, ...compared }: Comparison): string {
  if (divergence === null)
    return compared.complete
      ? "All nodes have the same states and outputs."
      : `Whether the jobs diverge is not known: ${compared.same_input === null ? "the inputs" : "some outputs"} are too large to be compared.`
  const { kind, node } = divergence
  const found = nodes.find(({ id }) => id === node)
  const { a = null, b = null, same_inputs } = found ?? {}
  switch (kind) {
    case "input":
      return `The inputs of the jobs differ${compared.input_by_hash ? byHash : ""}. What differs in the nodes may follow from that.`
    case "only_a":
      return "Only A has this node."
    case "only_b":
      return "Only B has this node."
    case "definition":
      return same_inputs === true ? "Same inputs, different definition." : "Different definition."
    case "status":
      return `Same inputs and definition, different state: ${a?.status ?? "none"} in A, ${b?.status ?? "none"} in B.`
    default:
      return `Same inputs and definition, different output${found?.by_hash ? byHash : ""}.`
  }
}

export type Verdict = "same" | "here" | "follows" | "unknown"

export function judgeNode({ a, b, divergence, same_output }: ComparedNode): Verdict {
  if (divergence !== null || a === null || b === null) return "here"
  if (a.status !== b.status || same_output === false) return "follows"
  return same_output === null && a.output !== null && b.output !== null ? "unknown" : "same"
}

export function verdictText(node: ComparedNode): string {
  if (node.a === null) return "only in B"
  if (node.b === null) return "only in A"
  const follows = node.same_inputs === null ? "differs" : "differs, follows"
  const texts = { same: "same", here: "differs here", follows, unknown: "not compared, too large" }
  return `${texts[judgeNode(node)]}${node.by_hash ? ", by hash" : ""}`
}

/** `+3 s`, `−2`, `0`. */
export function signed(value: number, text: (value: number) => string): string {
  const said = text(Math.abs(value))
  return said === text(0) ? said : `${value > 0 ? "+" : "−"}${said}`
}
