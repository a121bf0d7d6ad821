/** What adapters declare of themselves is checked where they stand: kinds and their queues, gathering, workers. */
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { adapterCatalog, loadWorkflow, type Problem } from "../../../src/definition/index.ts"
import { defineAdapter } from "../../../src/pipeline/adapter.ts"
import { builtinAdapters } from "../../../src/pipeline/adapters/index.ts"
import { adapterSettings } from "../../../src/pipeline/adapters/settings.ts"
import { workerSettings } from "../../../src/worker/settings.ts"
import { catalogs } from "./catalog.ts"

const mine = [
  defineAdapter({ type: "links", emits: () => ["link"], process: () => {} }),
  defineAdapter({
    type: "pick",
    config: z.strictObject({ kind: z.string().default("picked"), many: z.number().default(1) }),
    emits: ({ kind }) => [kind],
    process: () => {},
  }),
  defineAdapter({ type: "mine_once", writesOnce: () => true, process: () => {} }),
  defineAdapter({ type: "mine_gather", gather: () => ({ count: 2, seconds: 1 }), process: () => {} }),
  defineAdapter({ type: "odd", emits: () => JSON.parse("{"), process: () => {} }),
]
const adapters = adapterCatalog([...builtinAdapters({ ...workerSettings(), ...adapterSettings() }), ...mine])

/** One route with these adapters; what it writes to is read by a second one. */
function problems(chain: readonly object[], route: object = {}): readonly Problem[] {
  const queues = Object.values((route as { outbound?: Record<string, string> }).outbound ?? {})
  const document = {
    name: "x",
    routes: [
      { name: "a", inbound: "q", adapters: chain, ...route },
      ...[...new Set(queues)].map(queue => ({ name: queue, inbound: queue, adapters: [{ type: "log" }] })),
    ],
  }
  return loadWorkflow(JSON.stringify(document), { ...catalogs, adapters }).problems ?? []
}
const places = (...given: Parameters<typeof problems>) =>
  problems(...given).map(({ code, path }) => `${code} ${path}`)

const file = { path: "{{ message.path }}" }

describe("E114 a kind without a queue", () => {
  it("a source without outbound", () => {
    expect(places([{ type: "jsonl_source", config: file }])).toEqual(["E114 routes[0].adapters[0].type"])
    expect(places([{ type: "file_source", config: file }])).toEqual(["E114 routes[0].adapters[0].type"])
    const postgres = { url: "{{ secrets.DB }}", query: "select 1 as id", key: "id" }
    expect(places([{ type: "postgres_source", config: postgres }])).toEqual([
      "E114 routes[0].adapters[0].type",
    ])
    const [problem] = problems([{ type: "jsonl_source", config: file }])
    expect(problem!.message).toBe(
      'Adapter "jsonl_source" emits messages of kind "default", but route "a" has no outbound queue for this kind, so each would fail. Add "outbound" with the queue that they go to.',
    )
    expect(places([{ type: "jsonl_source", config: file }], { outbound: { default: "b" } })).toEqual([])
  })

  it("a file that is read as text emits nothing", () => {
    expect(places([{ type: "file_source", config: { ...file, read: "text" } }, { type: "log" }])).toEqual([])
  })

  it("lines that cannot be used and are emitted", () => {
    const config = { ...file, invalid: "emit" }
    expect(places([{ type: "jsonl_source", config }], { outbound: { default: "b" } })).toEqual([
      "E114 routes[0].adapters[0].type",
    ])
    const outbound = { default: "b", invalid: "c" }
    expect(places([{ type: "jsonl_source", config }], { outbound })).toEqual([])
  })

  it("filter.otherwise and split.kind, at the key that names the kind and with the nearest name", () => {
    const filter = { type: "filter", config: { when: "{{ message.a }}", otherwise: "cheep" } }
    const outbound = { default: "b", cheap: "c" }
    expect(places([filter], { outbound })).toEqual(["E114 routes[0].adapters[0].config.otherwise"])
    expect(problems([filter], { outbound })[0]!.message).toContain('Did you mean "cheap"?')
    const split = { type: "split", config: { kind: "line" } }
    expect(places([split])).toEqual(["E114 routes[0].adapters[0].config.kind"])
    expect(problems([split])[0]!.message).toContain('Add it to "outbound": { line: QUEUE }.')
    expect(places([{ type: "split" }])).toEqual(["E114 routes[0].adapters[0].type"])
    expect(places([{ type: "filter", config: { when: true } }])).toEqual([])
  })

  it("a kind that a template decides is not judged", () => {
    const config = { when: true, otherwise: "{{ message.kind }}" }
    expect(places([{ type: "filter", config }])).toEqual([])
    expect(places([{ type: "split", config: { kind: "{{ input.kind }}" } }])).toEqual([])
  })

  it("kinds that adapters of users declare, with the defaults of their config", () => {
    expect(places([{ type: "links" }])).toEqual(["E114 routes[0].adapters[0].type"])
    expect(places([{ type: "links" }], { outbound: { link: "b" } })).toEqual([])
    expect(places([{ type: "pick", config: { many: "{{ input.n }}" } }])).toEqual([])
    expect(places([{ type: "pick" }])).toEqual(["E114 routes[0].adapters[0].type"])
    expect(places([{ type: "odd" }])).toEqual([])
  })
})

describe("E115 an adapter at a position where it is not allowed", () => {
  const jsonl = { type: "jsonl_sink", config: { path: "a.jsonl" } }
  const rows = { url: "{{ secrets.DB }}", table: "t" }

  it("one that writes once behind one that gathers, however far", () => {
    expect(places([{ type: "batch" }, jsonl])).toEqual(["E115 routes[0].adapters[1].type"])
    const sum = { type: "aggregate", config: { reduce: "count" } }
    const text = { type: "file_sink", config: { path: "a.txt", text: "{{ message.count }}" } }
    expect(places([sum, { type: "log" }, text])).toEqual(["E115 routes[0].adapters[2].type"])
    expect(problems([{ type: "batch" }, jsonl])[0]!.message).toContain(
      'Make "batch" the last adapter of route "a", add "outbound" there, and move "jsonl_sink" to the route that reads that queue.',
    )
    expect(places([jsonl, { type: "batch" }])).toEqual([])
  })

  it("postgres_sink only where it needs idempotency_column", () => {
    const keyed = { ...rows, on_conflict: { columns: ["id"] } }
    expect(places([{ type: "batch" }, { type: "postgres_sink", config: keyed }])).toEqual([])
    const once = { ...rows, idempotency_column: "origin" }
    expect(places([{ type: "batch" }, { type: "postgres_sink", config: once }])).toEqual([
      "E115 routes[0].adapters[1].type",
    ])
  })

  it("adapters of users that declare it", () => {
    expect(places([{ type: "mine_gather" }, { type: "mine_once" }])).toEqual([
      "E115 routes[0].adapters[1].type",
    ])
  })

  it("one that gathers, or submits jobs, in a route that runs on workers", () => {
    const workers = { run_on: "workers" }
    expect(places([{ type: "batch" }], workers)).toEqual(["E115 routes[0].adapters[0].type"])
    expect(places([{ type: "submit_job", config: { workflow: "w" } }], workers)).toEqual([
      "E115 routes[0].adapters[0].type",
    ])
    expect(places([{ type: "log" }], workers)).toEqual([])
  })
})

it("E720 declarations of the wrong form are refused when the adapter is defined", () => {
  const define = (more: object) => () => defineAdapter({ type: "a", process: () => {}, ...more } as never)
  expect(define({ emits: ["link"] })).toThrow("emits")
  expect(define({ writesOnce: true })).toThrow("writesOnce")
})
