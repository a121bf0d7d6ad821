import { expect, it } from "vitest"
import type { Json } from "../../src/core/json.ts"
import { JobComparisons } from "../../src/jobs/compare/compare.ts"
import { openMemory } from "../../src/journal/sqlite/memory.ts"
import { flow, handler, open } from "../engine/stage.ts"

let calls = 0
const handlers = [
  handler("count", () => ({ calls: ++calls })),
  handler("echo", (config: { value: Json }) => config.value),
  handler("big", (config: { bytes: number }) => "x".repeat(config.bytes)),
  handler("flaky", (_config, { attempt }) => {
    if (attempt < 2) throw Object.assign(new Error("once"), { retryable: true })
    return "fine"
  }),
]
const retry = { max_attempts: 3, initial_seconds: 0.01, max_seconds: 0.02, jitter: 0 }

async function run(workflow: ReturnType<typeof flow>, inputs: readonly Json[]) {
  const umbra = await open({ handlers })
  const ids: string[] = []
  for (const input of inputs) {
    const job = await umbra.submit(workflow, input)
    await job.wait()
    ids.push(job.id)
  }
  return { umbra, ids: ids as [string, string, ...string[]] }
}

const echoes = flow([
  { id: "a", handler: "echo", config: { value: "{{ input.x }}" } },
  { id: "b", handler: "echo", config: { value: { of: "{{ a }}" } }, dependencies: ["a"] },
])

it("two jobs with the same input and the same outputs do not diverge; nor does a job from itself", async () => {
  const { umbra, ids } = await run(echoes, [{ x: 1 }, { x: 1 }])
  for (const other of ids) {
    const compared = await umbra.compare(ids[0], other, { diff: ["a", "input"] })
    expect(compared).toMatchObject({
      divergence: null,
      same_input: true,
      same_definition: true,
      complete: true,
    })
    expect(compared.diffs).toEqual([
      { node: "a", changes: [], complete: true },
      { node: "input", changes: [], complete: true },
    ])
  }
})

const turned = (first: boolean, text = "") =>
  first ? { x: [{ a: 1, b: text }] } : { x: [{ b: text, a: 1 }] }

it("objects with their keys in another order are the same, as inputs, outputs and items", async () => {
  let runs = 0
  const each = handler("turned", () => turned(runs++ < 3))
  const umbra = await open({ handlers: [...handlers, each] })
  const workflow = flow([
    { id: "a", handler: "turned" },
    { id: "items", handler: "turned", for_each: "{{ [1, 2] }}", dependencies: ["a"] },
    { id: "b", handler: "echo", config: { value: "{{ a.x }}" }, dependencies: ["items"] },
  ])
  const ids: string[] = []
  for (const isFirst of [true, false]) {
    const job = await umbra.submit(workflow, turned(isFirst))
    await job.wait()
    ids.push(job.id)
  }
  const compared = await umbra.compare(ids[0]!, ids[1]!, { diff: ["a", "input"] })
  expect(compared).toMatchObject({ same_input: true, divergences: [], complete: true })
  for (const node of compared.nodes) {
    expect(node).toMatchObject({ same_inputs: true, same_output: true, divergence: null })
    expect(node.a!.output).not.toBe(node.b!.output)
    expect(node).not.toHaveProperty("by_hash")
  }
  expect(compared.diffs).toMatchObject([{ changes: [] }, { changes: [] }])
})

it("what is too large to compare by value keeps the verdict of the hash, and says so", async () => {
  const journal = openMemory()
  const umbra = await open({ handlers, at: journal })
  const jobs = []
  for (const isFirst of [true, false])
    jobs.push(await umbra.submit(echoes, turned(isFirst, "x".repeat(3000))))
  for (const job of jobs) await job.wait()
  const hashedBytes = 1e6
  for (const { isInputCompared, ...bounds } of [
    { hashedBytes, diffBytes: 2000, facts: 100, isInputCompared: false },
    { hashedBytes, diffBytes: 1e6, facts: 0, isInputCompared: false },
    { hashedBytes: 20_000, diffBytes: 1e6, facts: 100, isInputCompared: true },
  ]) {
    const comparisons = new JobComparisons(journal, umbra.queries.facts, bounds)
    const compared = await comparisons.compare({ a: jobs[0]!.id, b: jobs[1]!.id })
    expect(compared).toMatchObject({ same_input: isInputCompared })
    expect(compared.input_by_hash).toBe(isInputCompared ? undefined : true)
    expect(compared.nodes[1]).toMatchObject({ id: "b", same_output: false, by_hash: true })
  }
})

it("inputs that are too large to hash are not compared, and not said to be the same", async () => {
  const journal = openMemory()
  const umbra = await open({ handlers, at: journal })
  const ids: string[] = []
  for (const text of ["a".repeat(3000), "b".repeat(3000), "short"]) {
    const job = await umbra.submit(flow([{ id: "a", handler: "echo", config: { value: 1 } }]), { text })
    await job.wait()
    ids.push(job.id)
  }
  const bounds = { hashedBytes: 2000, diffBytes: 1e6, facts: 100 }
  const comparisons = new JobComparisons(journal, umbra.queries.facts, bounds)
  for (const [a, b] of [
    [ids[0]!, ids[1]!],
    [ids[0]!, ids[2]!],
  ] as const) {
    const compared = await comparisons.compare({ a, b })
    expect(compared).toMatchObject({ same_input: null, complete: false, divergence: null })
    expect(compared.a).not.toHaveProperty("input")
    expect(compared).not.toHaveProperty("input_by_hash")
    expect(compared.nodes[0]!.same_inputs).toBeNull()
  }
  const moments = await comparisons.compare({ a: ids[0]!, b: ids[0]!, atA: { index: 1 } })
  expect(moments).toMatchObject({ same_input: true, divergence: { kind: "status", node: "a" } })
})

it("a handler with another result for the same inputs is the first divergence; attempts and usage differ", async () => {
  const workflow = flow([
    { id: "a", handler: "count" },
    { id: "b", handler: "echo", config: { value: "{{ a.calls }}" }, dependencies: ["a"] },
  ])
  const { umbra, ids } = await run(workflow, [{}, {}])
  const compared = await umbra.compare(ids[0], ids[1], { diff: ["a"] })
  expect(compared.divergences).toEqual([{ kind: "output", node: "a" }])
  expect(compared.nodes[1]).toMatchObject({ id: "b", same_inputs: false, divergence: null })
  expect(compared.diffs![0]!.changes).toMatchObject([{ path: "$.calls", kind: "changed" }])
})

it("other inputs come first, and their difference on request", async () => {
  const { umbra, ids } = await run(echoes, [{ x: 1 }, { x: 2, y: [3] }])
  const compared = await umbra.compare(ids[0], ids[1], { diff: ["input", "b"] })
  expect(compared.divergence).toEqual({ kind: "input", node: null })
  expect(compared.diffs).toMatchObject([
    { changes: [{ path: "$.x" }, { path: "$.y", kind: "added", b: "[3]" }] },
    { changes: [{ path: "$.of", a: "1", b: "2" }] },
  ])
})

it("jobs of other versions and workflows are aligned by the ids of their nodes", async () => {
  const { umbra, ids } = await run(echoes, [{ x: 1 }])
  const changed = flow(
    [
      { id: "a", handler: "echo", config: { value: "{{ input.x }}" } },
      { id: "b", handler: "echo", config: { value: { changed: "{{ a }}" } }, dependencies: ["a"] },
      { id: "c", handler: "echo", config: { value: 1 } },
    ],
    { name: "another" },
  )
  const other = await umbra.submit(changed, { x: 1 })
  await other.wait()
  const compared = await umbra.compare(ids[0], other.id)
  expect(compared).toMatchObject({ same_definition: false, b: { workflow: "another" } })
  expect(compared.divergences).toEqual([
    { kind: "definition", node: "b" },
    { kind: "only_b", node: "c" },
  ])
  expect(compared.nodes[0]).toMatchObject({ id: "a", same_output: true, same_definition: true })
})

it("a node that never began has no attempt: behind a failure, or with a result that was taken over", async () => {
  let isBroken = true
  const shaky = handler("shaky", () => {
    if (isBroken) throw new Error("broken")
    return 1
  })
  const umbra = await open({ handlers: [...handlers, shaky] })
  const failed = await umbra.submit(
    flow([
      { id: "a", handler: "echo", config: { value: 1 } },
      { id: "b", handler: "shaky", dependencies: ["a"], retry: { max_attempts: 1 } },
      { id: "c", handler: "echo", config: { value: 2 }, dependencies: ["b"] },
      { id: "d", handler: "echo", config: { value: 3 }, when: "{{ false }}", dependencies: ["a"] },
    ]),
  )
  await failed.wait()
  isBroken = false
  const fork = await umbra.fork(failed.id, { confirm: { unknown: true } })
  await fork.wait()
  const { nodes } = await umbra.compare(failed.id, fork.id)
  expect(nodes.map(({ id, a, b }) => [id, a!.attempts, b!.attempts])).toEqual([
    ["a", 1, 0],
    ["b", 1, 1],
    ["d", 0, 0],
    ["c", 0, 1],
  ])
})

it("a node that was cancelled while it was queued has no attempt, one that waited or ran has one", async () => {
  let hasBegun = () => {}
  const begun = new Promise<void>(resolve => {
    hasBegun = resolve
  })
  const runs = handler("runs", (_config, { signal }) => {
    hasBegun()
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)))
  })
  const umbra = await open({ handlers: [...handlers, runs], worker: { concurrency: 1 } })
  const job = await umbra.submit(
    flow([
      { id: "asks", handler: "wait_for_signal", config: { signal: "go" } },
      { id: "runs", handler: "runs" },
      { id: "queued", handler: "echo", config: { value: 1 } },
    ]),
  )
  await begun
  await job.cancel()
  await job.wait()
  const { nodes } = await umbra.compare(job.id, job.id)
  expect(nodes.map(({ id, a }) => [id, a!.status, a!.attempts])).toEqual([
    ["asks", "CANCELLED", 1],
    ["runs", "CANCELLED", 1],
    ["queued", "CANCELLED", 0],
  ])
})

it("a list with more items done is not equally far", async () => {
  const list = { id: "list", handler: "echo", for_each: [1, 2, 3], config: { value: "{{ item }}" } }
  const { umbra, ids } = await run(flow([list]), [null])
  const compare = (a: number, b: number) =>
    umbra.compare(ids[0], ids[0], { atA: { index: a }, atB: { index: b } })
  // Facts: submitted, expanded, then one for each item.
  const compared = await compare(3, 4)
  expect(compared.divergences).toEqual([{ kind: "status", node: "list" }])
  expect(compared.nodes[0]).toMatchObject({
    a: { items: { done: 1, total: 3 } },
    b: { items: { done: 2, total: 3 } },
  })
  const { nodes, divergences } = await compare(5, 5)
  expect([nodes[0]!.a!.status, divergences]).toEqual(["COMPLETED", []])
  expect(nodes[0]!.a).not.toHaveProperty("items")
})

it("two moments of one job show what happened in between", async () => {
  const workflow = flow([
    { id: "a", handler: "flaky", retry },
    { id: "b", handler: "echo", config: { value: 1 }, dependencies: ["a"] },
  ])
  const { umbra, ids } = await run(workflow, [{}])
  const [id] = ids
  const compared = await umbra.compare(id, id, { atA: { index: 1 } })
  expect(compared.moments).toMatchObject({ a: { index: 1 } })
  expect(compared.divergence).toEqual({ kind: "status", node: "a" })
  expect(compared.nodes[0]).toMatchObject({
    a: { status: "QUEUED", attempts: 0, began_ms: expect.any(Number), output: null },
    b: { status: "COMPLETED", attempts: 2 },
    delta: { attempts: 2, took_ms: null },
  })
  expect(compared.a.status).toBe("PROCESSING")
  await expect(umbra.compare(id, id, { atB: { index: 99 } })).rejects.toMatchObject({ code: "E313" })
})

it("results that a fork has taken over are compared like its own", async () => {
  const workflow = flow([
    { id: "ask", handler: "wait_for_signal", config: { signal: "go" } },
    { id: "a", handler: "big", config: { bytes: 3000 }, dependencies: ["ask"] },
    { id: "each", handler: "echo", for_each: "{{ input }}", config: { value: "{{ item }}" } },
    { id: "b", handler: "count", dependencies: ["a", "each", "ask"] },
  ])
  const umbra = await open({ handlers })
  const origin = await umbra.submit(workflow, [1, 2])
  await origin.signal("go", { by: "Ada" })
  await origin.wait()
  const confirm = { unknown: true }
  const fork = await umbra.fork(origin.id, { from: ["b"], confirm })
  await fork.wait()
  const diff = ["ask", "a", "each", "b"]
  const compared = await umbra.compare(origin.id, fork.id, { diff })
  expect(compared).toMatchObject({ complete: true, divergences: [{ kind: "output", node: "b" }] })
  const same = Object.fromEntries(compared.nodes.map(({ id, same_output }) => [id, same_output]))
  expect(same).toEqual({ ask: true, a: true, each: true, b: false })
  expect(compared.diffs).toMatchObject([
    ...diff.slice(0, 3).map(node => ({ node, changes: [], complete: true })),
    { node: "b", changes: [{ path: "$.calls", kind: "changed" }] },
  ])
  const again = await umbra.fork(fork.id, { from: ["b"], confirm })
  await again.wait()
  expect((await umbra.compare(fork.id, again.id)).divergences).toEqual([{ kind: "output", node: "b" }])

  const output = "y".repeat(5000)
  const pinned = await umbra.fork(origin.id, { overrides: { a: { output } }, confirm })
  await pinned.wait()
  const other = await umbra.compare(origin.id, pinned.id, { diff: ["a"] })
  expect(other).toMatchObject({ complete: true, divergence: { kind: "output", node: "a" } })
  expect(other.diffs).toMatchObject([
    { node: "a", changes: [{ path: "$", b: expect.stringContaining("yyy") }] },
  ])
  expect((await umbra.compare(pinned.id, pinned.id)).complete).toBe(true)
})

it("outputs of items are compared, also many of them", async () => {
  const workflow = flow([
    { id: "each", handler: "echo", for_each: "{{ input.list }}", config: { value: "{{ item.v }}" } },
  ])
  const list = Array.from({ length: 150 }, (_, v) => ({ v }))
  const { umbra, ids } = await run(workflow, [{ list }, { list }, { list: [...list, { v: -1 }] }])
  expect((await umbra.compare(ids[0], ids[1])).nodes[0]).toMatchObject({ same_output: true })
  const compared = await umbra.compare(ids[0], ids[2]!, { diff: ["each"] })
  expect(compared.nodes[0]).toMatchObject({ same_output: false })
  expect(compared.diffs![0]!.changes).toEqual([{ path: "$[150]", kind: "added", b: "-1" }])
})

it("a changed definition has no version", async () => {
  const { umbra, ids } = await run(echoes, [{ x: 1 }])
  const [node] = (echoes as { nodes: { id: string }[] }).nodes
  const overrides = { [node!.id]: { config: { value: 2 } } }
  const fork = await umbra.fork(ids[0], { overrides, confirm: { unknown: true } })
  await fork.wait()
  const { a, b } = await umbra.compare(ids[0], fork.id)
  expect([a.workflow_version, b.workflow_version]).toEqual([1, null])
})

it("a list that a fork sets equals the same outputs of items", async () => {
  const workflow = flow([
    { id: "each", handler: "echo", for_each: "{{ input }}", config: { value: "{{ item }}" } },
    { id: "empty", handler: "echo", for_each: "{{ [] }}", config: { value: "{{ item }}" } },
  ])
  const umbra = await open({ handlers })
  const input = [1, [2, { x: "]," }], "ä".repeat(900), "b".repeat(900)]
  const origin = await umbra.submit(workflow, input)
  await origin.wait()
  const same = async (each: readonly unknown[], empty: unknown = []) => {
    const overrides = { each: { output: each as never }, empty: { output: empty as never } }
    const fork = await umbra.fork(origin.id, { overrides })
    await fork.wait()
    const compared = [await umbra.compare(origin.id, fork.id), await umbra.compare(fork.id, origin.id)]
    return compared.map(({ nodes }) => nodes.map(({ same_output }) => same_output))
  }
  expect(await same(input)).toEqual([
    [true, true],
    [true, true],
  ])
  expect(await same(input.slice(0, 3), null)).toEqual([
    [false, false],
    [false, false],
  ])
  expect(await same([...input, 5], 0)).toEqual([
    [false, false],
    [false, false],
  ])
  expect(await same([...input].reverse())).toEqual([
    [false, true],
    [false, true],
  ])
})

it("what is beyond the bounds is not compared, and said to be unknown", async () => {
  const workflow = flow([
    { id: "small", handler: "echo", config: { value: "s" } },
    { id: "large", handler: "big", config: { bytes: 20_000 } },
  ])
  const journal = openMemory()
  const umbra = await open({ handlers, at: journal })
  const jobs = [await umbra.submit(workflow, {}), await umbra.submit(workflow, {})] as const
  for (const job of jobs) await job.wait()
  const query = { a: jobs[0].id, b: jobs[1].id, diff: ["large", "small"] }
  const whole = await umbra.queries.comparisons.compare(query)
  expect(whole).toMatchObject({ complete: true, divergence: null })
  const bounds = { hashedBytes: 10_000, diffBytes: 1000, facts: 100 }
  const bounded = await new JobComparisons(journal, umbra.queries.facts, bounds).compare(query)
  expect(bounded).toMatchObject({ complete: false, divergence: null })
  expect(bounded.nodes.find(({ id }) => id === "large")).toMatchObject({ same_output: null })
  expect(bounded.diffs).toMatchObject([
    { node: "large", not_compared: "too_large" },
    { node: "small", changes: [] },
  ])
})

it("refuses nodes that neither job has, and too many of them", async () => {
  const { umbra, ids } = await run(echoes, [{ x: 1 }])
  const [id] = ids
  await expect(umbra.compare(id, id, { diff: ["zzz"] })).rejects.toMatchObject({ code: "E310" })
  await expect(umbra.compare(id, id, { diff: new Array(21).fill("a") })).rejects.toMatchObject({
    code: "E309",
  })
  await expect(umbra.compare(id, "0198c0de-7a11-7012-9abc-0123456789ab")).rejects.toMatchObject({
    code: "E301",
  })
})
