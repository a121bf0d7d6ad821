/** The crash test's shapes, and those that need more than a worker: a provider, a signal, time. */
import type { WorkflowDefinition } from "../../src/definition/index.ts"
import type { FakeScript } from "../../src/testing/fake-provider.ts"
import { type Random, randomFrom } from "../crash/random.ts"
import { type Shape, workload as stepWorkload, type Workload } from "../crash/workload.ts"

const SHAPES = 20

/** What nodes that are done elsewhere give; it counts in the totals. */
const FILM = { value: 7 }
export const APPROVAL = { value: 5 }

const retry = { max_attempts: 50, initial_seconds: 0.05, max_seconds: 0.2 }
const film = { id: "film", handler: "external", provider: "fake", config: { of: "{{ input.index }}" }, retry }

export const approval = fixed({
  value: 1 + APPROVAL.value + 2,
  definition: {
    name: "approval",
    nodes: [
      { id: "before", handler: "step", config: { number: 1, ms: 0 } },
      { id: "wait", handler: "wait_for_signal", config: { signal: "go" }, dependencies: ["before"] },
      { id: "after", handler: "step", config: { number: 2, ms: 0 }, dependencies: ["before", "wait"] },
    ],
    output: { value: "{{ after.value }}" },
  },
})

const special: readonly Shape[] = [
  approval,
  fixed({
    value: 1 + FILM.value,
    definition: {
      name: "film",
      nodes: [film, { id: "total", handler: "step", config: { number: 1, ms: 0 }, dependencies: ["film"] }],
      output: { value: "{{ total.value }}" },
    },
  }),
  fixed({
    value: 3 * FILM.value,
    definition: {
      name: "films",
      nodes: [{ ...film, for_each: [1, 2, 3], config: { of: "{{ input.index }}/{{ item }}" } }],
      output: { value: "{{ film | map(attribute='value') | sum }}" },
    },
  }),
  // Timers that fall due while their owner stands still: whoever wakes up late finds them done by another.
  fixed({
    value: 3,
    definition: {
      name: "naps",
      nodes: [
        { id: "a", handler: "sleep", config: { seconds: 2 } },
        { id: "b", handler: "step", config: { number: 1, ms: 0 }, dependencies: ["a"] },
        { id: "c", handler: "sleep", config: { seconds: 3 }, dependencies: ["b"] },
        { id: "d", handler: "step", config: { number: 2, ms: 0 }, dependencies: ["b", "c"] },
      ],
      output: { value: "{{ d.value }}" },
    },
  }),
  // Long enough to be met in the middle by most of what goes wrong.
  fixed({
    value: 6,
    definition: {
      name: "long",
      nodes: [
        { id: "a", handler: "step", config: { number: 1, ms: 1500 } },
        { id: "b", handler: "step", config: { number: 2, ms: 700 } },
        { id: "c", handler: "step", config: { number: 3, ms: 300 }, dependencies: ["a", "b"] },
      ],
      output: { value: "{{ c.value }}" },
    },
  }),
]

/** A third of the jobs are of the special kinds. */
export function workload(seed: number, jobs: number): Workload {
  const random = randomFrom(seed)
  const steps = stepWorkload(seed, { shapes: SHAPES, jobs })
  const draw = (shape: number) =>
    random.chance(1 / 3) ? SHAPES + random.between(0, special.length - 1) : shape
  return { shapes: [...steps.shapes, ...special], jobs: steps.jobs.map(draw) }
}

/** Takes a moment, and is told by webhook most of the time; else a poll finds it. */
export function filmScript(random: Random): FakeScript {
  const webhook = random.chance(0.7) ? [{ do: "webhook", times: random.between(1, 2) } as const] : []
  return {
    steps: [{ do: "wait", ms: random.between(0, 400) }, { do: "complete", output: FILM }, ...webhook],
  }
}

function fixed(parts: { readonly value: number; readonly definition: WorkflowDefinition }): Shape {
  const { value, definition } = parts
  const { nodes } = definition
  return {
    definition,
    status: "COMPLETED",
    output: { value },
    dependencies: new Map(nodes.map(node => [node.id, node.dependencies ?? []])),
    children: new Map(),
    executed: new Set(nodes.filter(({ handler }) => handler === "step").map(({ id }) => id)),
  }
}
