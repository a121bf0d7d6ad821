/** Random pipelines for property tests: sound ones, in which every route is reached from the first. */

import type { PipelineDefinition, RouteDefinition } from "../../../src/definition/pipeline/schema.ts"
import fc from "../../support/property.ts"

export type Edges = readonly (readonly boolean[])[]

/** `edges[i][j]`: can messages of route i come to route j, over any number of routes? */
export function closure(edges: Edges): boolean[][] {
  const reach = edges.map(row => [...row])
  for (let via = 0; via < reach.length; via++)
    for (const row of reach)
      if (row[via]) for (let to = 0; to < row.length; to++) row[to] ||= reach[via]![to]!
  return reach
}

export const hasCycle = (edges: Edges): boolean => closure(edges).some((row, i) => row[i])

/** Any edges between routes, also such that leave some of them alone. */
export const anyEdges: fc.Arbitrary<Edges> = fc
  .integer({ min: 1, max: 7 })
  .chain(count => fc.array(fc.array(chance(1, 5), size(count)), size(count)))

const soundEdges: fc.Arbitrary<Edges> = fc.integer({ min: 1, max: 7 }).chain(count =>
  fc
    .record({
      extra: fc.array(fc.array(chance(1, 8), size(count)), size(count)),
      writers: fc.tuple(...Array.from({ length: count - 1 }, (_, i) => fc.nat(i))),
    })
    .map(({ extra, writers }) =>
      extra.map((row, from) => row.map((is, to) => is || (to > 0 && writers[to - 1] === from))),
    ),
)

function chance(times: number, of: number): fc.Arbitrary<boolean> {
  return fc.nat(of - 1).map(drawn => drawn < times)
}
function size(count: number) {
  return { minLength: count, maxLength: count }
}

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined })

const settings = fc.record(
  {
    run_on: fc.constantFrom("engine" as const, "workers" as const),
    concurrency: fc.integer({ min: 2, max: 20 }),
    prefetch: fc.constantFrom(64, 1, 5),
    rate: fc.constantFrom(0.5, 100),
    backpressure: fc.record(
      { min_concurrency: fc.constantFrom(1, 2), max_queued: fc.constantFrom(10, 10_000_000) },
      { requiredKeys: [] },
    ),
    error_handling: fc.record(
      {
        retries: fc.constantFrom(0, 3),
        backoff: fc.record({ jitter: fc.constantFrom(0, 0.1) }, { requiredKeys: [] }),
        circuit_breaker: fc.constantFrom(false as const, {}, { min_calls: 10 }, { min_calls: 2 }),
        dead_letter: fc.boolean(),
      },
      { requiredKeys: [] },
    ),
  },
  { requiredKeys: [] },
)

const adapter = fc.constantFrom<RouteDefinition["adapters"][number]>(
  { type: "echo" },
  { type: "echo", config: {} },
  { type: "echo", config: { b: ["{{ message.x }} and {{ input.y }}", 1], a: { "{{": "{{ job.id }}" } } },
  { type: "http_fetch", config: { url: "{{ message.url }}", timeout: 2 } },
  { type: "transform", config: { value: "{{ message }}" } },
)

export function routesOf(edges: Edges): RouteDefinition[] {
  return edges.map((row, i) => {
    const to = row.flatMap((is, j) => (is ? j : []))
    const kinds = to.map((j, k) => [k === 0 ? "default" : `kind_${j}`, `q-${j}`] as const)
    return {
      name: `route_${i}`,
      inbound: `q-${i}`,
      adapters: [{ type: "echo" }],
      ...(kinds.length === 0 ? {} : { outbound: Object.fromEntries(kinds) }),
    }
  })
}

const init = fc.constantFrom<PipelineDefinition["init"]>(
  undefined,
  { queue: "q-0" },
  [{ body: { url: "{{ input.url }}" } }],
  [{ queue: "q-0", body: [1, "{{ job.id }}"] }, {}],
)

export const pipelines: fc.Arbitrary<PipelineDefinition> = soundEdges.chain(edges =>
  fc
    .record({
      settings: fc.array(settings, size(edges.length)),
      adapters: fc.array(fc.array(adapter, { minLength: 1, maxLength: 3 }), size(edges.length)),
      init,
      ttl: maybe(fc.constant(60)),
    })
    .map(drawn => ({
      name: "drawn",
      ...(drawn.ttl === undefined ? {} : { ttl_seconds: drawn.ttl }),
      ...(hasCycle(edges) ? { max_hops: 9 } : {}),
      ...(drawn.init === undefined ? {} : { init: drawn.init }),
      routes: routesOf(edges).map((route, i) => ({
        ...route,
        ...drawn.settings[i],
        adapters: drawn.adapters[i]!,
      })),
    })),
)
