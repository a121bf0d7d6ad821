/** Random workflows for property tests: valid ones, whose edges all lead to earlier nodes of a hidden order. */
import fc from "../support/property.ts"

export interface DrawnNode {
  id: string
  handler: string
  dependencies?: string[]
  config?: Record<string, unknown>
  when?: string | boolean
  retry?: Record<string, number>
  timeout_seconds?: number
}

export interface Drawn {
  name: string
  description?: string
  nodes: DrawnNode[]
  output?: unknown
  ttl_seconds?: number
}

export const idOf = (i: number): string => (i % 3 === 0 ? `step-${i}` : `step_${i}`)
export const readOf = (i: number): string => (i % 3 === 0 ? `nodes["step-${i}"]` : `step_${i}`)

interface Edge {
  readonly to: number
  readonly by: "dependencies" | "config" | "when"
}

const edge = (below: number): fc.Arbitrary<Edge> =>
  fc.record({
    to: fc.nat(below - 1),
    by: fc.constantFrom("dependencies" as const, "config" as const, "when" as const),
  })

/** No templates, and no key that YAML would have to quote for us (`<<` is refused as a merge key). */
const literal = fc
  .jsonValue({ maxDepth: 2 })
  .filter(value => !/[{}]{2}|\{[%#]|__proto__|<</.test(JSON.stringify(value)))

const node = (i: number): fc.Arbitrary<DrawnNode> =>
  fc
    .record({
      edges: i === 0 ? fc.constant<Edge[]>([]) : fc.array(edge(i), { maxLength: 4 }),
      literal,
      timeout: fc.option(fc.integer({ min: 1, max: 99 }), { nil: undefined }),
      attempts: fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined }),
    })
    .map(({ edges, literal, timeout, attempts }) => {
      const by = (kind: Edge["by"]) => edges.filter(({ by }) => by === kind).map(({ to }) => to)
      const [condition] = by("when")
      return {
        id: idOf(i),
        handler: "echo",
        config: { literal, list: by("config").map(to => ({ text: `see {{ ${readOf(to)}.value }}` })) },
        dependencies: by("dependencies").map(idOf),
        ...(condition === undefined ? {} : { when: `{{ ${readOf(condition)} }}` }),
        ...(timeout === undefined ? {} : { timeout_seconds: timeout }),
        ...(attempts === undefined ? {} : { retry: { max_attempts: attempts } }),
      }
    })

export const workflows: fc.Arbitrary<Drawn> = fc
  .integer({ min: 1, max: 12 })
  .chain(count =>
    fc.tuple(fc.tuple(...Array.from({ length: count }, (_, i) => node(i))), fc.nat(), fc.boolean()),
  )
  .map(([nodes, turn, described]) => {
    const at = turn % nodes.length
    return {
      name: "drawn",
      ...(described ? { description: "some text", ttl_seconds: 5 } : {}),
      nodes: [...nodes.slice(at), ...nodes.slice(0, at)],
      output: { last: `{{ ${readOf(nodes.length - 1)} }}` },
    }
  })
