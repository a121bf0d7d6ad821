/**
 * Mutated documents of both kinds, as text and as values. Whatever comes in, what comes out is a plan or problems, each with
 * a known code, a message, a path that can be read, and a place inside the text.
 */
import { describe, expect, it } from "vitest"
import { stringify } from "yaml"
import { type CompileResult, compileWorkflow, loadWorkflow } from "../../src/definition/index.ts"
import { errorTable } from "../../src/errors.ts"
import { seed } from "../support/seed.ts"
import { handlers } from "./catalog.ts"
import { adapters } from "./pipeline/catalog.ts"

const catalogs = { handlers, adapters }

/** mulberry32: small, and the same everywhere. */
function generator(start: number): () => number {
  let state = start >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const workflow = {
  name: "fuzz",
  input: { type: "object", properties: { n: { type: "integer", default: 1 }, s: { pattern: "^a" } } },
  nodes: [
    { id: "a", handler: "echo", config: { text: "{{ input.n }}" }, timeout_seconds: 3 },
    {
      id: "b-c",
      handler: "llm_service",
      config: { prompt: "hi {{ a.x | upper }}", stop: ["x"] },
      dependencies: ["a"],
    },
    {
      id: "d",
      handler: "transform",
      config: { value: '{{ nodes["b-c"].y }}' },
      when: "{{ a.go }}",
      retry: { jitter: 0 },
    },
    {
      id: "e",
      handler: "echo",
      for_each: "{{ d.list }}",
      max_parallel: 2,
      fail_fast: false,
      config: { i: "{{ item }}" },
      provider: "p",
    },
  ],
  output: { r: "{{ e }}" },
  ttl_seconds: 9,
}

const pipeline = {
  name: "fuzz",
  input: { type: "object", properties: { n: { type: "integer", default: 1 } } },
  max_hops: 3,
  init: [{ queue: "a", body: { x: "{{ input.n }}" } }, { body: "{{ job.id }}" }],
  routes: [
    {
      name: "a",
      inbound: "a",
      adapters: [
        { type: "http_fetch", config: { url: "{{ message.url }}", timeout: 3 } },
        { type: "transform", config: { value: ["{{ message }}"] } },
      ],
      outbound: { default: "d", link: "a" },
      concurrency: 4,
      backpressure: { min_concurrency: 2 },
      error_handling: { retries: 2, backoff: { jitter: 0 }, circuit_breaker: { min_calls: 3 } },
    },
    { name: "d", inbound: "d", adapters: [{ type: "echo" }], run_on: "workers", rate: 5 },
  ],
  ttl_seconds: 9,
}

interface Subject {
  readonly source: object
  readonly json: string
  readonly yaml: string
  readonly documents: number
}
const subject = (source: object, documents: number): Subject => ({
  source,
  json: JSON.stringify(source),
  yaml: stringify(source),
  documents,
})
const subjects = { workflows: subject(workflow, 100_000), pipelines: subject(pipeline, 20_000) }

const pieces = [
  ...[
    '"',
    "'",
    "{{",
    "}}",
    "{%",
    "%}",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\n",
    "  ",
    "- ",
    "&x ",
    "*x",
    "!!binary ",
    "|\n",
    "#",
  ],
  ...[
    "null",
    "true",
    "1e999",
    "-0",
    ".nan",
    "\u0000",
    "\ud800",
    "é",
    "__proto__",
    "constructor",
    "secrets.K",
    "nodes[",
    "a",
    "d",
  ],
  ...[
    "---\n",
    "? ",
    "<<: ",
    "\\",
    "\\u",
    "\t",
    "\r",
    "{{ item }}",
    "{{ d.x }}",
    "dependencies",
    "id",
    "$ref",
    "#/",
    "a-b",
  ],
]
const values: readonly unknown[] = [
  ...[
    null,
    true,
    -1,
    1.5,
    1e21,
    "",
    "a",
    "d",
    "gone",
    "{{ d }}",
    "{{",
    "{{ secrets.K }}",
    "{{ item + loop }}",
    "input",
  ],
  ...[
    [],
    {},
    ["a"],
    ["d", "a"],
    [[]],
    { a: {} },
    { $ref: "#" },
    { type: "x" },
    { max_attempts: 0 },
    { ["__proto__"]: 1 },
  ],
  ...[undefined, Number.NaN, () => 1, new Date(0), 7n, Symbol("s")],
]

/** What is put into one document must not be changed by the next mutation of another. */
function fresh(value: unknown): unknown {
  const isPlain = Array.isArray(value) || Object.getPrototypeOf(value ?? 0) === Object.prototype
  return isPlain ? structuredClone(value) : value
}

class Mutator {
  readonly #random: () => number

  constructor(start: number) {
    this.#random = generator(start)
  }

  below(count: number): number {
    return Math.floor(this.#random() * count)
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T
  }

  text(source: string): string {
    let text = source
    for (let left = 1 + this.below(4); left > 0; left--) {
      const at = this.below(text.length + 1)
      const length = this.pick([0, 0, 1, 1, 3, 20])
      const inserted = this.pick([
        () => "",
        () => this.pick(pieces),
        () => text.slice(at, at + this.below(40)).repeat(2),
      ])()
      text = text.slice(0, at) + inserted + text.slice(at + length)
    }
    return text
  }

  /** A copy with a few members replaced, removed, renamed or doubled, at any depth. */
  value(source: unknown): unknown {
    const root = structuredClone(source)
    for (let left = 1 + this.below(4); left > 0; left--) this.#mutate(root)
    return root
  }

  #mutate(root: unknown): void {
    let target = root as Record<string, unknown>
    while (this.below(4) > 0) {
      const inner = Object.values(target).filter(member => typeof member === "object" && member !== null)
      if (inner.length === 0) break
      target = this.pick(inner) as Record<string, unknown>
    }
    const key = this.pick(Object.keys(target).concat("extra"))
    const action = this.below(4)
    if (Array.isArray(target) && action === 0) target.push(target[0])
    else if (action === 1) delete target[key]
    else if (action === 2 && !Array.isArray(target))
      target[this.pick(["id", "when", "cofnig", "inbound", "nodes", key])] = target[key]
    else target[key] = fresh(this.pick(values))
  }
}

/** Everything that must hold of an answer; a text that says what does not. */
function fault(result: CompileResult, text?: string): string | undefined {
  if (result.plan !== undefined) return result.plan.hash.length === 64 ? undefined : "a plan without a hash"
  if (result.problems.length === 0) return "neither a plan nor a problem"
  const lines = text?.split("\n")
  for (const { code, message, path, line, column } of result.problems) {
    if (!Object.hasOwn(errorTable, code) || !code.startsWith("E1")) return `unknown code ${code}`
    if (message.length < 10 || /undefined|\[object|NaN,/.test(message.replace(/".*"/gs, "")))
      return `poor message: ${message}`
    if (!/^(|[A-Za-z_$][\w$-]*|\[).*$/s.test(path)) return `odd path ${path}`
    if (lines === undefined) continue
    const length = lines[(line ?? 0) - 1]?.length
    if (length === undefined || column === undefined || column < 1 || column > length + 1) {
      return `${code} ${path} at ${line}:${column} stands outside of the text`
    }
  }
  return undefined
}

/** One in ten is YAML, which takes as long to read as all the others together. */
function draw({ source, json, yaml }: Subject, number: number): { text?: string; value?: unknown } {
  const mutator = new Mutator(seed + number)
  const kind = number % 10
  if (kind === 0) return { text: mutator.text(yaml) }
  if (kind <= 4) return { text: mutator.text(json) }
  if (kind <= 6) return { text: safeJson(mutator.value(source)) }
  return { value: mutator.value(source) }
}

function tryOne(
  subject: Subject,
  number: number,
): { found: string | undefined; isPlan: boolean; what: unknown } {
  const { text, value } = draw(subject, number)
  try {
    const result = text === undefined ? compileWorkflow(value, catalogs) : loadWorkflow(text, catalogs)
    return { found: fault(result, text), isPlan: result.plan !== undefined, what: text ?? value }
  } catch (error) {
    return { found: `threw ${(error as Error).stack}`, isPlan: false, what: text ?? value }
  }
}

function safeJson(value: unknown): string {
  return JSON.stringify(value, (_, member) => (typeof member === "bigint" ? Number(member) : member))
}

describe("fuzz", () => {
  it.each(Object.entries(subjects))(
    `J4 P1 mutated %s (UMBRA_TEST_SEED=${seed}) give plans or explained problems`,
    {
      timeout: 900_000,
    },
    (_, subject) => {
      const { documents } = subject
      let plans = 0
      for (let number = 0; number < documents; number++) {
        const { found, isPlan, what } = tryOne(subject, number)
        if (isPlan) plans++
        if (found !== undefined)
          expect.fail(
            `seed ${seed}, document ${number}: ${found}\n${typeof what === "string" ? what : String(safeJson(what))}`,
          )
      }
      // Both sides are really reached.
      expect(plans).toBeGreaterThan(documents / 50)
      expect(plans).toBeLessThan(documents / 2)
    },
  )
})
