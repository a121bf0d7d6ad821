/** Forks against the whole run: whatever was forked, and how often, the result is that of a job without a past. */
import { createHash } from "node:crypto"
import { beforeAll, describe, expect, it } from "vitest"
import type { Json } from "../../src/core/json.ts"
import { readNodeStatus } from "../../src/core/state.ts"
import type { ForkRequest } from "../../src/jobs/fork/request.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { follow } from "../core/event-story.ts"
import fc from "../support/property.ts"
import { soon } from "./stage.ts"

type Input = { readonly a: number; readonly b: number; readonly list: readonly number[] }

interface DrawnNode {
  readonly kind: "pure" | "work" | "whole" | "each" | "child" | "children"
  /** Earlier nodes that it reads. */
  readonly reads: readonly number[]
  readonly readsInput: readonly ("a" | "b")[]
  readonly salt: number
  /** A condition on the input; null: none. */
  readonly when: "a" | "b" | null
  /** Which list its items come from: the input, a constant, or an earlier list. */
  readonly list: "input" | "constant" | "node"
  readonly failFast: boolean
}

const node: fc.Arbitrary<DrawnNode> = fc.record({
  kind: fc.constantFrom("pure", "work", "work", "whole", "each", "each", "child", "children"),
  reads: fc.uniqueArray(fc.nat(9), { maxLength: 3 }),
  readsInput: fc.uniqueArray(fc.constantFrom("a", "b"), { maxLength: 2 }),
  salt: fc.nat(3),
  when: fc.option(fc.constantFrom("a", "b"), { freq: 4 }),
  list: fc.constantFrom("input", "constant", "node"),
  failFast: fc.boolean(),
})

const input: fc.Arbitrary<Input> = fc.record({
  a: fc.nat(2),
  b: fc.nat(2),
  list: fc.array(fc.nat(5), { maxLength: 3 }),
})

/** A step: what fails in it, and what the fork asks for. */
interface Step {
  readonly fails: readonly number[]
  readonly change: "nothing" | "from" | "input" | "definition" | "items" | "version"
  readonly pick: number
  readonly input: Input
  readonly node: DrawnNode
}

const step: fc.Arbitrary<Step> = fc.record({
  fails: fc.uniqueArray(fc.nat(9), { maxLength: 2 }),
  change: fc.constantFrom("nothing", "from", "input", "definition", "items", "version"),
  pick: fc.nat(9),
  input,
  node,
})

/** Short, so that outputs do not grow with the graph; every fourth is too large for memory. */
function digest(value: unknown): Json {
  const hash = createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 12)
  return /^[0-3]/.test(hash) ? { hash, filled: "x".repeat(500) } : { hash }
}

const idOf = (at: number) => `n${at}`

function definitionOf(name: string, nodes: readonly DrawnNode[]) {
  const isList = ({ kind }: DrawnNode) => kind === "each" || kind === "children"
  return {
    name,
    nodes: nodes.map((drawn, at) => {
      const reads = drawn.reads.filter(other => other < at).map(idOf)
      const lists = drawn.reads.filter(other => other < at && isList(nodes[other]!)).map(idOf)
      const value = {
        salt: drawn.salt,
        from: reads.map(id => `{{ ${id} }}`),
        input: drawn.readsInput.map(key => `{{ input.${key} }}`),
      }
      const list =
        drawn.list === "node" && lists[0] !== undefined
          ? `{{ ${lists[0]} if ${lists[0]} is not mapping else [] }}`
          : drawn.list === "input"
            ? "{{ input.list }}"
            : "{{ [7, 8, 9] }}"
      const each = isList(drawn) ? { for_each: list, fail_fast: drawn.failFast } : {}
      const own = isList(drawn) ? { ...value, item: "{{ item }}" } : value
      const when = drawn.when === null ? {} : { when: `{{ input.${drawn.when} > 0 }}` }
      const base = { id: idOf(at), ...each, ...when, retry: soon }
      if (drawn.kind === "pure") return { ...base, handler: "transform", config: { value: own } }
      if (drawn.kind === "child" || drawn.kind === "children")
        return {
          ...base,
          handler: "workflow",
          config: { workflow: "any-child", input: { value: own, node: idOf(at) } },
        }
      return { ...base, handler: drawn.kind === "whole" ? "whole" : "work", config: { value: own } }
    }),
    output: Object.fromEntries(nodes.map((_, at) => [idOf(at), `{{ ${idOf(at)} }}`])),
  }
}

describe("any fork", () => {
  /** Nodes that fail for good, and attempts that failed once. */
  let failing: ReadonlySet<string> = new Set()
  const failedOnce = new Set<string>()
  let runs = 0

  const failsNow = (ctx: { jobId: string; nodeId: string; fence: number }, config: unknown): void => {
    runs++
    const name = `${ctx.jobId}/${ctx.nodeId}/${JSON.stringify(config)}`
    if (failing.has(ctx.nodeId)) throw Object.assign(new Error("fails"), { retryable: false })
    // Every other run needs a second attempt.
    if (runs % 2 === 0 && !failedOnce.has(name)) {
      failedOnce.add(name)
      throw new Error("fails once")
    }
  }
  const handlers = [
    defineHandler({
      name: "work",
      effects: false,
      readsInput: false,
      run(config, ctx) {
        failsNow(ctx, config)
        return digest([config, ctx.parents])
      },
    }),
    defineHandler({
      name: "whole",
      effects: "keyed",
      run(config, ctx) {
        failsNow(ctx, config)
        return digest([config, ctx.input])
      },
    }),
    defineHandler({
      name: "grandchild",
      effects: false,
      run(config, ctx) {
        const { node } = ctx.input as { node: string }
        runs++
        if (failing.has(`${node}/child`)) throw Object.assign(new Error("fails"), { retryable: false })
        return digest(config)
      },
    }),
  ]
  let umbra: Umbra

  beforeAll(async () => {
    umbra = await openUmbra("memory:", { handlers, engine: { largeOutputBytes: 400 } })
    await umbra.register({
      name: "any-child",
      nodes: [
        { id: "first", handler: "work", config: { value: "{{ input.value }}" }, retry: soon },
        { id: "second", handler: "grandchild", config: { value: "{{ first }}" }, retry: soon },
      ],
      output: "{{ second }}",
    })
    return () => umbra.close()
  })

  /** States and outputs of all nodes, and the job's output. */
  async function resultOf(jobId: string) {
    const { status, output, error } = await umbra.job(jobId)
    const { plan, state } = await umbra.queries.fold(jobId)
    const nodes: Record<string, Json> = {}
    for (const { id } of plan.nodes) {
      const { output: value, status: is } = await umbra.node(jobId, id)
      nodes[id] = { is, value }
    }
    const story = follow(
      await umbra.events(jobId),
      plan.nodes.map(({ id }) => id),
    )
    expect([...story.nodes.values()]).toEqual(plan.nodes.map((_, at) => readNodeStatus(state, at)))
    expect(await umbra.queries.verify(await umbra.queries.row(jobId))).toEqual([])
    return { status, output, code: error?.code ?? null, nodes }
  }

  let names = 0

  it("ends as a whole run of the same definition with the same input", async () => {
    const drawn = fc.record({
      nodes: fc.array(node, { minLength: 1, maxLength: 6 }),
      input,
      fails: fc.uniqueArray(fc.nat(9), { maxLength: 3 }),
      steps: fc.array(step, { minLength: 1, maxLength: 3 }),
    })
    await fc.assert(
      fc.asyncProperty(drawn, async first => {
        const name = `any-${++names}`
        let nodes = [...first.nodes]
        let given: Input = first.input
        // One half of the failures is inside of child jobs.
        const failures = (list: readonly number[]) =>
          new Set(list.map(at => (at % 2 === 0 ? idOf(at >> 1) : `${idOf(at >> 1)}/child`)))
        failing = failures(first.fails)
        let job = await umbra.submit(definitionOf(name, nodes), given as unknown as Json)
        await job.wait()
        for (const [index, { fails, change, pick, ...drawnStep }] of first.steps.entries()) {
          failing = index === first.steps.length - 1 ? new Set() : failures(fails)
          const at = pick % nodes.length
          let request: ForkRequest = {}
          if (change === "from") request = { from: [idOf(at)] }
          if (change === "input") {
            given = drawnStep.input
            request = { input: given as unknown as Json }
          }
          if (change === "definition" || change === "version") {
            if (pick > 5) nodes = [...nodes, drawnStep.node]
            else if (pick > 3 && nodes.length > 1) nodes = nodes.slice(0, -1)
            else nodes = nodes.with(at, drawnStep.node)
            const changed = definitionOf(name, nodes)
            if (change === "version") await umbra.register(changed)
            request = { workflow: change === "version" ? name : (changed as never) }
          }
          if (change === "items") {
            const { items } = await umbra.items(job.id, idOf(at))
            const preview = await umbra.previewFork(job.id)
            const isKept = preview.reused.some(({ node: id }) => id === idOf(at))
            if (items.length > 0 && isKept) request = { items: { [idOf(at)]: [pick % items.length] } }
          }
          job = await umbra.fork(job.id, { ...request, confirm: { unknown: true } })
          await job.wait()
        }
        failing = new Set()
        const whole = await umbra.submit(definitionOf(name, nodes), given as unknown as Json)
        await whole.wait()
        expect(await resultOf(job.id)).toEqual(await resultOf(whole.id))
      }),
      { numRuns: 60 },
    )
  })
})
