import type { JobStatus, NodeStatus } from "../states.ts"
import type { ErrorView } from "./view.ts"

/**
 * Compares two jobs, or two moments of one job. Nodes are aligned by their ids, so that the jobs may be of different
 * versions or workflows. Outputs are compared by hash, and by value where the caller has done so.
 *
 * A difference is a *divergence* if the node has no earlier difference as its cause: its inputs are the same, and its
 * output or state is not; or its definition is another one. All other differences follow from a divergence. A node that
 * the failure of another one has cancelled follows from that failure.
 */
export interface ComparedJob {
  readonly job_id: string
  readonly workflow: string
  /** null: a changed definition. */
  readonly workflow_version: number | null
  readonly status: JobStatus
  /** Hash of the definition. */
  readonly definition: string
  /** Hash of the input. Absent: it was not computed. */
  readonly input?: string
  /** From the creation until the end or the moment that is compared. */
  readonly took_ms: number
  readonly usage: Sums
  /** In topological order. */
  readonly nodes: readonly ComparedNode[]
}

export interface ComparedNode extends NodeSide {
  readonly id: string
  /** Hash of its definition. */
  readonly definition: string
  /** Ids of the nodes whose outputs it may read. */
  readonly reads: readonly string[]
}

type Sums = { readonly [key: string]: number }

/** A node of one of the jobs. */
export interface NodeSide {
  readonly status: NodeStatus
  /** Attempts that have begun. */
  readonly attempts: number
  /** When it was ready in its current attempt, from the start of the job; null: it was not yet. */
  readonly began_ms: number | null
  /** From when it was first ready in its current attempt until it ended; null: it has not. */
  readonly took_ms: number | null
  readonly usage: Sums
  readonly error: ErrorView | null
  /** For a list that has not ended: how many of its items have. */
  readonly items?: { readonly done: number; readonly total: number }
  /** Hash of its output. null: it has none; absent: it was not computed. */
  readonly output?: string | null
}

export type DivergenceKind =
  /** The inputs of the jobs differ. */
  | "input"
  /** Only one of the jobs has the node. */
  | "only_a"
  | "only_b"
  /** The node is defined differently. */
  | "definition"
  /** The node had the same inputs, and ended differently or is not equally far. */
  | "status"
  /** The node had the same inputs, but has a different output. */
  | "output"

export interface Divergence {
  readonly kind: DivergenceKind
  /** null: the jobs themselves. */
  readonly node: string | null
}

export interface NodeComparison {
  readonly id: string
  /** null: the job has no such node. */
  readonly a: NodeSide | null
  readonly b: NodeSide | null
  readonly same_definition: boolean
  /** The job's input and the outputs that it may read. null: outputs were not compared. */
  readonly same_inputs: boolean | null
  readonly same_output: boolean | null
  /** Present: the outputs differ as texts, perhaps only in the order of keys; they were not compared by value. */
  readonly by_hash?: true
  /** The difference of b from a. */
  readonly delta: Delta | null
  readonly divergence: DivergenceKind | null
}

/** b minus a. */
export interface Delta {
  /** null: one of them has not ended. */
  readonly took_ms: number | null
  readonly attempts: number
  /** Only what differs. */
  readonly usage: Sums
}

type JobSide = Omit<ComparedJob, "nodes">

export interface JobComparison {
  readonly a: JobSide
  readonly b: JobSide
  readonly same_definition: boolean
  /** null: they were not compared. */
  readonly same_input: boolean | null
  /** As `by_hash` of a node. */
  readonly input_by_hash?: true
  /** The first divergence in topological order; null: there is none. */
  readonly divergence: Divergence | null
  /** At most 100; the first is `divergence`. */
  readonly divergences: readonly Divergence[]
  readonly delta: Pick<Delta, "took_ms" | "usage">
  /** Nodes of a in topological order, then those that only b has. */
  readonly nodes: readonly NodeComparison[]
  /** false: the inputs of the jobs, or some outputs, were not compared. */
  readonly complete: boolean
}

const MOST_DIVERGENCES = 100

/** What is known of values with different hashes, by node; null: the inputs of the jobs. */
export interface ValueVerdicts {
  /** As values they are the same. */
  readonly equal: ReadonlySet<string | null>
  /** They were not compared. */
  readonly byHash: ReadonlySet<string | null>
}

const noVerdicts: ValueVerdicts = { equal: new Set(), byHash: new Set() }

/** Yields after each node: a job may have a hundred thousand. */
export function* comparison(
  a: ComparedJob,
  b: ComparedJob,
  verdicts = noVerdicts,
): Generator<undefined, JobComparison, undefined> {
  const same_input = isEqual(a.input, b.input, verdicts.equal.has(null))
  const byId = new Map(b.nodes.map(node => [node.id, node]))
  const nodes: NodeComparison[] = []
  const isSame = new Map<string, boolean | null>()
  const hasFailed = { a: a.status === "FAILED", b: b.status === "FAILED" }
  const add = (node: NodeComparison) => {
    nodes.push(node)
    isSame.set(node.id, node.same_output)
  }
  for (const node of a.nodes) {
    const other = byId.get(node.id)
    byId.delete(node.id)
    add(
      other === undefined ? alone(node, "a") : both(node, other, { same_input, isSame, verdicts, hasFailed }),
    )
    yield
  }
  for (const node of byId.values()) add(alone(node, "b"))
  const found: Divergence[] = same_input === false ? [{ kind: "input", node: null }] : []
  for (const { id, divergence } of nodes)
    if (divergence !== null && found.length < MOST_DIVERGENCES) found.push({ kind: divergence, node: id })
  return {
    a: jobSide(a),
    b: jobSide(b),
    same_definition: a.definition === b.definition,
    same_input,
    ...(verdicts.byHash.has(null) ? { input_by_hash: true as const } : {}),
    divergence: found[0] ?? null,
    divergences: found,
    delta: { took_ms: b.took_ms - a.took_ms, usage: difference(a.usage, b.usage) },
    nodes,
    complete: same_input !== null && nodes.every(node => node.same_output !== null),
  }
}

/** As `comparison`, in one piece. */
export function compareJobs(a: ComparedJob, b: ComparedJob): JobComparison {
  const work = comparison(a, b)
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}

function jobSide({ nodes: _, ...side }: ComparedJob): JobSide {
  return side
}

function nodeSide({ id: _, definition: __, reads: ___, ...side }: ComparedNode): NodeSide {
  return side
}

function alone(node: ComparedNode, of: "a" | "b"): NodeComparison {
  const side = nodeSide(node)
  return {
    id: node.id,
    a: of === "a" ? side : null,
    b: of === "b" ? side : null,
    ...{ same_definition: false, same_inputs: false, same_output: false, delta: null },
    divergence: of === "a" ? "only_a" : "only_b",
  }
}

interface Known {
  readonly same_input: boolean | null
  readonly isSame: ReadonlyMap<string, boolean | null>
  readonly verdicts: ValueVerdicts
  readonly hasFailed: { readonly a: boolean; readonly b: boolean }
}

function both(a: ComparedNode, b: ComparedNode, known: Known): NodeComparison {
  const { same_input, isSame, verdicts, hasFailed } = known
  const same_definition = a.definition === b.definition
  const same_inputs = allSame([same_input, ...[...a.reads, ...b.reads].map(id => isSame.get(id) ?? null)])
  const same_output = isEqual(a.output, b.output, verdicts.equal.has(a.id))
  return {
    ...{ id: a.id, a: nodeSide(a), b: nodeSide(b), same_definition, same_inputs, same_output },
    ...(verdicts.byHash.has(a.id) ? { by_hash: true as const } : {}),
    delta: {
      took_ms: a.took_ms === null || b.took_ms === null ? null : b.took_ms - a.took_ms,
      attempts: b.attempts - a.attempts,
      usage: difference(a.usage, b.usage),
    },
    divergence: findDivergence({
      same_definition,
      same_inputs,
      same_output,
      same_status: a.status === b.status && isEquallyFar(a, b),
      was_stopped: (hasFailed.a && wasStopped(a, b)) || (hasFailed.b && wasStopped(b, a)),
    }),
  }
}

function isEquallyFar({ items: a }: ComparedNode, { items: b }: ComparedNode): boolean {
  return a?.done === b?.done && a?.total === b?.total
}

/** Of a job that has failed: another node has failed, and this one was cancelled for it. */
function wasStopped(node: ComparedNode, other: ComparedNode): boolean {
  return node.status === "CANCELLED" && other.status !== "FAILED"
}

/** By hashes; null: one is not known. `isSameValue`: the values were compared, and are the same. */
function isEqual(a: Hash, b: Hash, isSameValue: boolean): boolean | null {
  if (isSameValue) return true
  return a === undefined || b === undefined ? null : a === b
}

type Hash = string | null | undefined

/** null: one is not known, and none is false. */
function allSame(values: readonly (boolean | null)[]): boolean | null {
  if (values.includes(false)) return false
  return values.includes(null) ? null : true
}

function findDivergence(of: {
  same_definition: boolean
  same_inputs: boolean | null
  same_output: boolean | null
  same_status: boolean
  was_stopped: boolean
}): DivergenceKind | null {
  if (!of.same_definition) return "definition"
  if (of.same_inputs !== true || of.was_stopped) return null
  if (!of.same_status) return "status"
  return of.same_output === false ? "output" : null
}

function difference(a: Sums, b: Sums): Sums {
  const found: { [key: string]: number } = {}
  for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const by = (b[key] ?? 0) - (a[key] ?? 0)
    if (by !== 0) found[key] = by
  }
  return found
}
