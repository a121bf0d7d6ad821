import { readPolicy, recordPolicy } from "./decide/backoff.ts"
import type { RecordedRetryPolicy } from "./facts.ts"
import type { Adjacency, Graph, RetryPolicy, RuleNode, SignalSchema } from "./plan.ts"

/**
 * The compiled graph of a workflow version as JSON: all that the fold of a job needs, without templates. A browser gets
 * it from the server, and needs no code that reads definitions.
 */
export interface CompiledGraph {
  readonly nodes: readonly CompiledNode[]
}

export interface CompiledNode {
  readonly id: string
  readonly handler: string
  /** Ids of the nodes that it depends on. */
  readonly depends_on: readonly string[]
  readonly provider: string | null
  readonly timeout_seconds: number | null
  readonly heartbeat_seconds: number | null
  /** As compiled: where the definition sets nothing, with the default of 3 tries from 15 s on. */
  readonly retry: RecordedRetryPolicy
  /** The part of `retry` that the definition sets; the defaults that a job was submitted with override the rest. Absent: all of it. */
  readonly written_retry?: Partial<RecordedRetryPolicy>
  /** It runs once for each item of a list. */
  readonly for_each: boolean
  /** For a node with `for_each`: how many of its items may run at once; null: all, or the node has no items. */
  readonly max_parallel: number | null
  /** false: the other items of `for_each` continue when one has failed. */
  readonly fail_fast: boolean
  /** Its work resumes where it was when its process died. */
  readonly resumes: boolean
  /** It waits for this signal, whose data must fit the JSON Schema. */
  readonly signal?: SignalSchema | undefined
}

/** In pieces: a graph may have 100,000 nodes. */
export function* compiledGraph({
  nodes,
  dependencies,
}: Graph): Generator<undefined, CompiledGraph, undefined> {
  const compiled: CompiledNode[] = []
  for (const [position, node] of nodes.entries()) {
    compiled.push(compiledNode(node, adjacentIds(nodes, dependencies, position)))
    yield
  }
  return { nodes: compiled }
}

function compiledNode(node: RuleNode, depends_on: readonly string[]): CompiledNode {
  const { id, handler, retry, writtenRetry } = node
  return {
    ...{ id, handler, depends_on, provider: node.provider ?? null },
    timeout_seconds: node.timeoutSeconds,
    heartbeat_seconds: node.heartbeatSeconds ?? null,
    retry: recordPolicy(retry),
    ...(writtenRetry === undefined
      ? {}
      : { written_retry: definedIn(recordPolicy(writtenRetry as RetryPolicy)) }),
    for_each: node.forEach != null,
    max_parallel: node.maxParallel ?? null,
    fail_fast: node.failFast !== false,
    resumes: node.resumes === true,
    signal: node.signal,
  }
}

function adjacentIds(nodes: readonly RuleNode[], { starts, items }: Adjacency, node: number): string[] {
  return Array.from(items.subarray(starts[node], starts[node + 1]), position => nodes[position]!.id)
}

export function readGraph(compiled: CompiledGraph): Graph {
  const positions = new Map(compiled.nodes.map(({ id }, position) => [id, position]))
  const above = compiled.nodes.map(({ depends_on }) => depends_on.map(id => positions.get(id)!))
  const below: number[][] = above.map(() => [])
  for (const [position, list] of above.entries())
    for (const dependency of list) below[dependency]!.push(position)
  return {
    nodes: compiled.nodes.map(readNode),
    inDegrees: Int32Array.from(above, list => list.length),
    dependencies: adjacency(above),
    successors: adjacency(below),
    order: topological(above, below),
  }
}

function readNode(node: CompiledNode): RuleNode {
  const { id, handler, provider, retry, written_retry: written } = node
  return {
    ...{ id, handler, provider, retry: readPolicy(retry) },
    writtenRetry: written && definedIn(readPolicy(written as RecordedRetryPolicy)),
    timeoutSeconds: node.timeout_seconds,
    heartbeatSeconds: node.heartbeat_seconds,
    ...(node.for_each ? { forEach: true } : {}),
    maxParallel: node.max_parallel,
    failFast: node.fail_fast,
    resumes: node.resumes,
    signal: node.signal,
  }
}

/** Without the fields that are not set. */
function definedIn<T extends object>(values: T): Partial<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<T>
}

function adjacency(lists: readonly (readonly number[])[]): Adjacency {
  const starts = new Int32Array(lists.length + 1)
  for (const [row, list] of lists.entries()) starts[row + 1] = starts[row]! + list.length
  return { starts, items: Int32Array.from(lists.flat()) }
}

/** Kahn's algorithm, as for the plan (definition/graph/graph.ts). */
function topological(
  above: readonly (readonly number[])[],
  below: readonly (readonly number[])[],
): Int32Array {
  const remaining = above.map(list => list.length)
  const order = remaining.flatMap((count, node) => (count === 0 ? [node] : []))
  for (const node of order) for (const next of below[node]!) if (--remaining[next]! === 0) order.push(next)
  return Int32Array.from(order)
}
