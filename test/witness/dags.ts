/** Random workflows, and what may become of their nodes: an evaluator that shares no code with the engine. */
import type { Random } from "../crash/random.ts"

export interface DagNode {
  readonly id: string
  readonly kind: "observed" | "sleep" | "list"
  readonly dependencies: readonly string[]
  readonly ms: number
  /** Executions that fail before one succeeds. */
  readonly fails: number
  readonly maxAttempts: number
  /** null: it has no `when`. */
  readonly when: boolean | null
  readonly items: number
}

export interface Dag {
  readonly name: string
  readonly nodes: readonly DagNode[]
}

export function randomDag(name: string, random: Random): Dag {
  const nodes: DagNode[] = []
  const size = random.between(3, 9)
  for (let index = 0; index < size; index++) {
    const dependencies = nodes.filter(() => random.chance(0.35)).map(({ id }) => id)
    const kind = random.chance(0.12) ? "sleep" : random.chance(0.15) ? "list" : "observed"
    const fails = kind === "observed" && random.chance(0.3) ? random.between(1, 2) : 0
    const alwaysFails = fails > 0 && random.chance(0.15)
    nodes.push({
      ...{ id: `n${index}`, kind, dependencies, fails },
      // Both sides of the second after which a start is recorded.
      ms: random.chance(0.3) ? random.between(1100, 1900) : random.between(0, 700),
      maxAttempts: alwaysFails ? fails : fails + 1,
      when: random.chance(0.2) ? random.chance(0.5) : null,
      items: random.between(1, 4),
    })
  }
  return { name, nodes }
}

export function documentOf({ name, nodes }: Dag): unknown {
  return {
    name,
    nodes: nodes.map(({ id, kind, dependencies, ms, fails, maxAttempts, when, items }) => ({
      id,
      dependencies,
      retry: { max_attempts: maxAttempts, initial_seconds: 0.05, jitter: 0 },
      ...(when === null ? {} : { when: `{{ input.${id} }}` }),
      ...(kind === "sleep"
        ? { handler: "sleep", config: { seconds: ms / 1000 } }
        : { handler: "observed", config: { ms, fails, ...(kind === "list" ? { item: "{{ item }}" } : {}) } }),
      ...(kind === "list" ? { for_each: Array.from({ length: items }, (_, index) => index) } : {}),
    })),
  }
}

export function inputOf({ nodes }: Dag): Record<string, boolean> {
  return Object.fromEntries(nodes.flatMap(({ id, when }) => (when === null ? [] : [[id, when]])))
}

const isSkipped = ({ when }: DagNode) => when === false
export const alwaysFails = (node: DagNode) => !isSkipped(node) && node.fails >= node.maxAttempts

/** How each node may end; a job with a hopeless node fails, and what had not ended by then depends on timing. */
export function endsOf({ nodes }: Dag): ReadonlyMap<string, ReadonlySet<string>> {
  const failing = nodes.some(alwaysFails)
  const doomed = new Set<string>()
  const ends = new Map<string, ReadonlySet<string>>()
  for (const node of nodes) {
    const isBelow = node.dependencies.some(id => doomed.has(id))
    if (isBelow || alwaysFails(node)) doomed.add(node.id)
    const own = isSkipped(node) ? "SKIPPED" : "COMPLETED"
    ends.set(
      node.id,
      new Set(alwaysFails(node) || isBelow ? ["FAILED", "CANCELLED"] : failing ? [own, "CANCELLED"] : [own]),
    )
  }
  return ends
}
