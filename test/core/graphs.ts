/** Graphs for tests, built the plain way, and an arbitrary of them whose document order is not a topological one. */

import type { Adjacency, Graph, RetryPolicy } from "../../src/core/plan.ts"
import fc from "../support/property.ts"

export interface NodeSpec {
  readonly id: string
  readonly dependencies: readonly string[]
  readonly handler?: string
  readonly provider?: string
  readonly retry?: Partial<RetryPolicy>
  readonly maxParallel?: number
  readonly failFast?: boolean
  readonly resumes?: boolean
}

/** X7: 15 s → 30 s → 60 s, cap 300 s, 3 tries. */
export const usualRetry: RetryPolicy = {
  maxAttempts: 3,
  initialSeconds: 15,
  maxSeconds: 300,
  multiplier: 2,
  jitter: 0,
}

export function graphOf(specs: readonly NodeSpec[]): Graph {
  const positions = new Map(specs.map(({ id }, position) => [id, position]))
  const dependencies = specs.map(spec => spec.dependencies.map(id => positions.get(id)!))
  const successors: number[][] = specs.map(() => [])
  for (const [position, list] of dependencies.entries())
    for (const dependency of list) successors[dependency]!.push(position)
  return {
    nodes: specs.map(({ id, handler, provider, retry, maxParallel, failFast, resumes }) => ({
      id,
      handler: handler ?? "work",
      provider: provider ?? null,
      timeoutSeconds: null,
      retry: { ...usualRetry, ...retry },
      ...(maxParallel === undefined ? {} : { maxParallel }),
      ...(failFast === undefined ? {} : { failFast }),
      ...(resumes === undefined ? {} : { resumes }),
    })),
    inDegrees: Int32Array.from(dependencies, list => list.length),
    dependencies: adjacency(dependencies),
    successors: adjacency(successors),
    order: Int32Array.from(topological(dependencies)),
  }
}

function adjacency(lists: readonly (readonly number[])[]): Adjacency {
  const starts = new Int32Array(lists.length + 1)
  for (const [position, list] of lists.entries()) starts[position + 1] = starts[position]! + list.length
  return { starts, items: Int32Array.from(lists.flat()) }
}

function topological(dependencies: readonly (readonly number[])[]): number[] {
  const level = new Map<number, number>()
  const levelOf = (node: number): number => {
    const known = level.get(node)
    if (known !== undefined) return known
    const found = 1 + Math.max(0, ...dependencies[node]!.map(levelOf))
    level.set(node, found)
    return found
  }
  return dependencies.map((_, node) => node).sort((a, b) => levelOf(a) - levelOf(b))
}

/** `a → b → c` reads: b depends on a, c on b. */
export function chain(...ids: readonly string[]): NodeSpec[] {
  return ids.map((id, index) => ({ id, dependencies: index === 0 ? [] : [ids[index - 1]!] }))
}

/** One node, `width` parallel ones, one that joins them. */
export function fan(width: number): NodeSpec[] {
  const parallel = Array.from({ length: width }, (_, index) => `p${index}`)
  return [
    { id: "first", dependencies: [] },
    ...parallel.map(id => ({ id, dependencies: ["first"] })),
    { id: "join", dependencies: parallel },
  ]
}

const policies: fc.Arbitrary<Partial<RetryPolicy>> = fc.record({
  maxAttempts: fc.constantFrom(1, 2, 3),
  jitter: fc.constantFrom(0, 0.5),
})

export function dags(mostNodes: number): fc.Arbitrary<NodeSpec[]> {
  return fc.integer({ min: 1, max: mostNodes }).chain(size =>
    fc
      .record({
        // Where in the document the n-th node of the topological order stands.
        ranks: fc.array(fc.nat(), { minLength: size, maxLength: size }),
        picks: fc.array(fc.nat({ max: 2 ** size - 1 }), { minLength: size, maxLength: size }),
        retries: fc.array(policies, { minLength: size, maxLength: size }),
      })
      .map(({ ranks, picks, retries }) => {
        const specs = picks.map((pick, index) => ({
          id: `n${index}`,
          dependencies: picks
            .slice(0, index)
            .flatMap((_, other) => ((pick >> other) & 1 ? [`n${other}`] : [])),
          retry: retries[index]!,
        }))
        return specs
          .map((spec, index) => ({ spec, rank: ranks[index]! }))
          .sort((a, b) => a.rank - b.rank)
          .map(({ spec }) => spec)
      }),
  )
}
