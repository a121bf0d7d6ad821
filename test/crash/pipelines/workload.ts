/**
 * A pipeline with all that can go wrong in one: a source that reads on, a fan, tries that fail, dead letters, a cycle
 * that is bounded, claims, and messages gathered into one. What becomes of it is foretold from its size alone.
 */
import { randomFrom } from "../random.ts"

export interface PipelineShape {
  readonly definition: { readonly name: string; readonly [key: string]: unknown }
  readonly size: number
  readonly keys: number
}

export interface PipelineWorkload {
  readonly shapes: readonly PipelineShape[]
  /** By job: which shape. */
  readonly jobs: readonly number[]
}

const RETRIES = 2
const MAX_HOPS = 5
const SHAPES = 4

export function pipelineWorkload(seed: number, jobs: number): PipelineWorkload {
  const random = randomFrom(seed)
  const shapes = Array.from({ length: SHAPES }, (_, at) => {
    const options = {
      size: random.between(80, 240),
      step: random.between(10, 60),
      concurrency: random.between(2, 8),
      prefetch: random.between(2, 60),
      keys: random.between(3, 40),
    }
    return { size: options.size, keys: options.keys, definition: definition(`shape-${at}`, options) }
  })
  return { shapes, jobs: Array.from({ length: jobs }, () => random.between(0, SHAPES - 1)) }
}

interface WorkflowOptions {
  readonly size: number
  readonly step: number
  readonly concurrency: number
  readonly prefetch: number
  readonly keys: number
}

function definition(name: string, { size, step, concurrency, prefetch, keys }: WorkflowOptions) {
  const route = (of: string, adapters: readonly object[], outbound?: unknown) => ({
    ...{ name: of, inbound: of, adapters, concurrency, prefetch },
    ...(outbound === undefined ? {} : { outbound }),
    error_handling: {
      retries: RETRIES,
      backoff: { initial_seconds: 0.02, max_seconds: 0.05, jitter: 0.5 },
      circuit_breaker: false,
    },
  })
  return {
    name,
    max_hops: MAX_HOPS,
    init: { queue: "source", body: { from: 0, job: "{{ input.index }}", step, to: size } },
    routes: [
      route("source", [{ type: "numbers" }], "work"),
      route("work", [{ type: "slow", config: { ms: 2 } }, { type: "flaky" }, { type: "fan" }], {
        ...{ default: "unique", copy: "group", round: "round" },
      }),
      route("round", [{ type: "turn" }], "round"),
      route("unique", [{ type: "once", config: { keys } }], "claimed"),
      route("group", [{ type: "group", config: { count: 5, seconds: 0.02 } }], "grouped"),
      route("claimed", [{ type: "sink" }]),
      route("grouped", [{ type: "sink" }]),
    ],
  }
}

/** Without the number of the job, which is in all of them. */
export interface ExpectedTotals {
  /** Bodies by route, sorted; those that depend on who came first are left out. */
  readonly bodies: ReadonlyMap<string, readonly string[]>
  /** Of dead letters, by route. */
  readonly dead: ReadonlyMap<string, readonly string[]>
  /** What the groups must hold, each once. */
  readonly grouped: readonly string[]
}

export function expectedTotals({ definition, size, keys }: PipelineShape): ExpectedTotals {
  const bodies = new Map<string, string[]>(
    (definition.routes as { name: string }[]).map(({ name }) => [name, []]),
  )
  const dead = new Map<string, string[]>([...bodies.keys()].map(name => [name, []]))
  const add = (route: string, body: object) => bodies.get(route)!.push(JSON.stringify(body))
  const { to, step } = (definition.init as { body: { to: number; step: number } }).body
  for (let from = 0; from < to; from += step) add("source", { from, step, to })
  const claimed = new Set<number>()
  const grouped: string[] = []
  for (let n = 0; n < size; n++) {
    add("work", { n })
    if (n % 13 === 0) {
      dead.get("work")!.push(JSON.stringify({ n }))
      continue
    }
    add("unique", { n })
    claimed.add(n % keys)
    if (n % 2 === 0)
      for (const copy of [1, 2]) {
        add("group", { n, copy })
        grouped.push(`${n}/${copy}`)
      }
    if (n % 10 === 3) goRound(n, { add, dead: dead.get("round")! })
  }
  for (const key of claimed) add("claimed", { key })
  bodies.delete("grouped")
  for (const list of [...bodies.values(), ...dead.values()]) list.sort()
  return { bodies, dead, grouped: grouped.sort() }
}

/** The message comes to the cycle with two hops behind it. */
function goRound(n: number, to: { add: (route: string, body: object) => void; dead: string[] }): void {
  for (let turns = n % 7, hops = 2; turns >= 0; turns--, hops++) {
    to.add("round", { n, turns })
    if (hops <= MAX_HOPS) continue
    to.dead.push(JSON.stringify({ n, turns }))
    return
  }
}
