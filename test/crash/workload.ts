/**
 * Workflows of random shape whose outcome is known beforehand: every node's value follows from its own number and its
 * parents' values, so a job that lost, doubled or mixed up anything on the way ends with another total.
 */
import type { WorkflowDefinition } from "../../src/definition/index.ts"
import { type Random, randomFrom } from "./random.ts"

export interface Shape {
  readonly definition: WorkflowDefinition
  readonly status: "COMPLETED" | "FAILED"
  /** The job's output, where it completes. */
  readonly output: unknown
  /** Dependencies by node. */
  readonly dependencies: ReadonlyMap<string, readonly string[]>
  /** Nodes that run another shape as a child job: which. */
  readonly children: ReadonlyMap<string, Shape>
  /** Nodes that a handler of the test runs, items as `id[item]`; the others are the engine's own or are skipped. */
  readonly executed: ReadonlySet<string>
}

export interface Workload {
  readonly shapes: readonly Shape[]
  /** By job: which shape. */
  readonly jobs: readonly number[]
}

export function workload(
  seed: number,
  options: { readonly shapes: number; readonly jobs: number },
): Workload {
  const random = randomFrom(seed)
  const shapes: Shape[] = []
  for (let index = 0; index < options.shapes; index++) shapes.push(shape(random, `shape-${index}`, shapes))
  return { shapes, jobs: Array.from({ length: options.jobs }, () => random.between(0, options.shapes - 1)) }
}

/** Above the large-output limit that the crash program sets. */
const PAD = "x".repeat(3000)
const MODULUS = 1_000_003

type Node = WorkflowDefinition["nodes"][number]

interface Draft {
  readonly nodes: Node[]
  readonly values: Map<string, number>
  readonly executed: Set<string>
  readonly children: Map<string, Shape>
  /** Shapes that a node may run: they complete, with a total. */
  readonly others: readonly Shape[]
}

function shape(random: Random, name: string, earlier: readonly Shape[]): Shape {
  const others = earlier.filter(other => other.status === "COMPLETED" && other.definition.output != null)
  const draft: Draft = {
    nodes: [],
    values: new Map(),
    executed: new Set(),
    children: new Map(),
    others,
  }
  const size = random.between(1, 7)
  for (let i = 0; i < size; i++) addNode(draft, random, `n${i}`)
  addStep(draft, random, "total", exitsOf(draft.nodes))
  const endsAsleep = random.chance(0.2)
  if (endsAsleep) addNap(draft, random, "nap", ["total"])
  const fails = random.chance(0.1)
  if (fails) draft.nodes.push(doomed(random.chance(0.5) ? ["total"] : []))
  const total = draft.values.get("total")!
  const hasTemplate = endsAsleep || random.chance(0.5)
  return {
    definition: {
      name,
      nodes: draft.nodes,
      ...(hasTemplate ? { output: { value: "{{ total.value }}" } } : {}),
    },
    status: fails ? "FAILED" : "COMPLETED",
    output: hasTemplate ? { value: total } : { total: { value: total } },
    dependencies: new Map(draft.nodes.map(node => [node.id, node.dependencies ?? []])),
    executed: fails ? new Set() : draft.executed,
    children: draft.children,
  }
}

function addNode(draft: Draft, random: Random, id: string): void {
  const earlier = draft.nodes.map(node => node.id)
  const dependencies = earlier.filter(() => random.chance(0.4))
  if (random.chance(0.12)) addNap(draft, random, id, dependencies)
  else if (random.chance(0.1)) addSkipped(draft, id, dependencies)
  else if (random.chance(0.13) && draft.others.length > 0) addChild(draft, random, id, dependencies)
  else if (random.chance(0.15)) addList(draft, random, id, dependencies)
  else addStep(draft, random, id, dependencies)
}

/** A step for each item of a list, and one that adds them up: the sum counts behind it. */
function addList(draft: Draft, random: Random, id: string, dependencies: readonly string[]): void {
  const numbers = Array.from({ length: random.between(0, 6) }, () => random.between(1, 1000))
  const each = `${id}_each`
  draft.values.set(each, 0)
  draft.values.set(
    id,
    numbers.reduce((sum, number) => sum + number, 0),
  )
  for (const item of numbers.keys()) draft.executed.add(`${each}[${item}]`)
  draft.nodes.push({
    id: each,
    handler: random.chance(0.3) ? "flaky_item" : "item",
    config: { number: "{{ item }}", ms: random.pick([0, 1, 5]) },
    for_each: numbers,
    dependencies: [...dependencies],
    retry: { max_attempts: 5, initial_seconds: 0.02, max_seconds: 0.05 },
    ...(random.chance(0.5) ? { max_parallel: random.between(1, 3) } : {}),
  })
  draft.nodes.push({
    id,
    handler: "transform",
    config: { value: { value: `{{ ${each} | sum }}` } },
    dependencies: [each],
  })
}

/** A node whose work is another shape's: its total counts in the sums of those behind it. */
function addChild(draft: Draft, random: Random, id: string, dependencies: readonly string[]): void {
  const child = random.pick(draft.others)
  draft.values.set(id, (child.output as { readonly value: number }).value)
  draft.children.set(id, child)
  draft.nodes.push({
    id,
    handler: "workflow",
    config: { workflow: child.definition.name, input: { never: false } },
    dependencies: [...dependencies],
  })
}

function addStep(draft: Draft, random: Random, id: string, dependencies: readonly string[]): void {
  const number = random.between(1, 1000)
  const parents = dependencies.reduce((sum, parent) => sum + (draft.values.get(parent) ?? 0), 0)
  const isPadded = id !== "total" && random.chance(0.15)
  draft.values.set(id, (number + parents) % MODULUS)
  draft.executed.add(id)
  draft.nodes.push({
    id,
    handler: random.chance(0.2) ? "flaky" : "step",
    config: { number, ms: random.pick([0, 0, 1, 5, 20]), ...(isPadded ? { pad: PAD } : {}) },
    dependencies: [...dependencies],
    retry: { max_attempts: 5, initial_seconds: 0.02, max_seconds: 0.05 },
  })
}

/** A node that waits without a worker; it counts as nothing in its children's sums. */
function addNap(draft: Draft, random: Random, id: string, dependencies: readonly string[]): void {
  draft.values.set(id, 0)
  draft.nodes.push({
    id,
    handler: "sleep",
    config: { seconds: random.pick([0.01, 0.05, 0.3, 0.6]) },
    dependencies: [...dependencies],
  })
}

function addSkipped(draft: Draft, id: string, dependencies: readonly string[]): void {
  draft.values.set(id, 0)
  draft.nodes.push({
    id,
    handler: "step",
    config: { number: 1, ms: 0 },
    dependencies: [...dependencies],
    when: "{{ input.never }}",
  })
}

function doomed(dependencies: string[]): Node {
  return { id: "doomed", handler: "doomed", config: {}, dependencies }
}

function exitsOf(nodes: readonly Node[]): string[] {
  const read = new Set(nodes.flatMap(node => node.dependencies ?? []))
  return nodes.map(node => node.id).filter(id => !read.has(id))
}
