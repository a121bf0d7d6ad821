import { describe, expect, it } from "vitest"
import { z } from "zod"
import {
  adapterCatalog,
  compileWorkflow,
  handlerCatalog,
  loadWorkflow,
  validateWorkflow,
} from "../../src/definition/index.ts"
import { filter, split } from "../../src/pipeline/adapters/plain.ts"
import { builtinSpecs } from "../../src/worker/handlers/specs.ts"

const handlers = handlerCatalog(builtinSpecs)
const adapters = adapterCatalog([filter, split])

const withWhen = (when: unknown) => ({ name: "x", nodes: [{ id: "a", handler: "input", when }] })
const problems = (document: unknown) =>
  validateWorkflow(document, { handlers, adapters }).map(({ code, path }) => `${code} ${path}`)
const whenOf = (when: unknown) => compileWorkflow(withWhen(when), { handlers }).plan!.nodes[0]!.when

describe("when", () => {
  it.each(["yes: {{ input.go }}", "{% if input.go %}true{% else %}false{% endif %}", "{{ 1 }}{{ 2 }}"])(
    "is a problem with a suggestion if it can only yield text: %s",
    when => {
      const [problem, ...more] = validateWorkflow(withWhen(when), { handlers })
      expect(more).toEqual([])
      expect(problem).toMatchObject({ code: "E101", path: "nodes[0].when" })
      expect(problem!.message).toBe(
        '"when" yields text here. Write one expression that yields true or false: "{{ … }}" with nothing around it.',
      )
    },
  )

  it.each([
    "{{ 'false' }}",
    "{{ input.a ~ input.b }}",
    "{{ input.a | upper }}",
    "{{ input.a | default('x') | string }}",
    "{{ input.a.strip() }}",
    "{{ 'yes' if input.go else 'no' }}",
  ])("is a problem if its expression can only yield text: %s", when => {
    const [problem, ...more] = validateWorkflow(withWhen(when), { handlers })
    expect(more).toEqual([])
    expect(problem).toMatchObject({ code: "E101", path: "nodes[0].when" })
    expect(problem!.message).toBe(
      '"when" yields text here. Write an expression that yields true or false, without text in quotes, "~" or a filter that produces text.',
    )
    expect(compileWorkflow(withWhen(when), { handlers, rules: 1 }).plan).toBeDefined()
  })

  it.each([
    "{{ input.a | upper == 'X' }}",
    "{{ 'x' in input.a }}",
    "{{ input.a | length }}",
    "{{ input.a or 'x' }}",
    "{{ 'x' if input.a }}",
    "{{ input.a | default('x') }}",
  ])("may read text: %s", when => {
    expect(problems(withWhen(when))).toEqual([])
  })

  it.each(["", " "])("is reported as empty, without advice what to write in its place: %j", when => {
    const [problem] = validateWorkflow(withWhen(when), { handlers })
    expect(problem!.message).toBe(
      '"when" is empty. Write an expression that yields true or false, "{{ … }}", or leave "when" out.',
    )
  })

  it.each([" {{ input.go }} ", "{{ input.go }}\n", "\t{{ input.go }}"])(
    "ignores white space around its expression: %j",
    when => {
      expect(whenOf(when)!.source).toBe("{{ input.go }}")
      const hashes = [when, "{{ input.go }}"].map(
        each => compileWorkflow(withWhen(each), { handlers }).plan!.hash,
      )
      expect(hashes[0]).toBe(hashes[1])
    },
  )

  it("is one expression also as a block of YAML", () => {
    const text = "name: x\nnodes:\n  - id: a\n    handler: input\n    when: |\n      {{ input.go }}\n"
    expect(loadWorkflow(text, { handlers }).plan!.nodes[0]!.when!.source).toBe("{{ input.go }}")
  })

  it("may be true or false, and no other text, number or list", () => {
    expect(whenOf(true)).toBeNull()
    expect(whenOf(false)!.source).toBe(false)
    for (const when of ["false", 0, []]) expect(problems(withWhen(when))).toEqual(["E101 nodes[0].when"])
  })

  it("of a version stored under the rules before is compiled as it was, with its hash", () => {
    const when = " {{ false }} "
    const plan = compileWorkflow(withWhen(when), { handlers, rules: 1 }).plan!
    expect(plan).toMatchObject({ rules: 1, canonical: { nodes: [{ handler: "input", id: "a", when }] } })
    expect(plan.nodes[0]!.when!.source).toBe(when)
    // As 0.1.0 computed it.
    expect(plan.hash).toBe("a132f2dedac4b9617233c3c612574e67ed76d49bf292906de587be1fe8e401ad")
  })
})

describe("for_each", () => {
  it("ignores white space around its expression", () => {
    const document = { name: "x", nodes: [{ id: "a", handler: "input", for_each: " {{ input.list }}\n" }] }
    expect(compileWorkflow(document, { handlers }).plan!.nodes[0]!.forEach!.source).toBe("{{ input.list }}")
  })
})

describe("a config field that takes a number or a boolean", () => {
  const sleep = (seconds: unknown) => ({
    name: "x",
    nodes: [{ id: "a", handler: "sleep", config: { seconds } }],
  })

  it("is a problem with a suggestion if its template can only yield text", () => {
    const [problem] = validateWorkflow(sleep("{{ input.minutes }}0"), { handlers })
    expect(problem).toMatchObject({ code: "E102", path: "nodes[0].config.seconds" })
    expect(problem!.message).toContain(
      '"seconds" yields text here. Write one expression that yields a number: "{{ … }}" with nothing around it.',
    )
    const call = (config: object) => ({
      name: "x",
      nodes: [{ id: "a", handler: "call_external_service", config: { url: "http://a", ...config } }],
    })
    expect(problems(call({ follow_redirects: "{% if input.f %}true{% endif %}" }))).toEqual([
      "E102 nodes[0].config.follow_redirects",
    ])
    expect(problems(call({ headers: { a: "b{{ input.c }}" } }))).toEqual([])
    expect(problems(call({ expected_status: ["{{ input.s }}"] }))).toEqual([])
    const [inList] = validateWorkflow(call({ expected_status: [200, "{{ input.s }}1"] }), { handlers })
    expect(inList).toMatchObject({ code: "E102", path: "nodes[0].config.expected_status[1]" })
    expect(inList!.message).toContain(
      '"expected_status[1]" yields text here. Write one expression that yields a ',
    )
    expect(problems(sleep("{{ input.minutes | string }}"))).toEqual(["E102 nodes[0].config.seconds"])
  })

  it("ignores white space around its expression", () => {
    const { plan } = compileWorkflow(sleep("{{ input.seconds }}\n"), { handlers })
    expect(plan!.nodes[0]!.config.source).toEqual({ seconds: "{{ input.seconds }}" })
    expect(plan!.nodes[0]!.config.templates[0]!.template.isExpression).toBe(true)
  })

  it("keeps white space where text is taken", () => {
    const document = {
      name: "x",
      nodes: [{ id: "a", handler: "transform", config: { value: " {{ input }} " } }],
    }
    expect(compileWorkflow(document, { handlers }).plan!.nodes[0]!.config.source).toEqual({
      value: " {{ input }} ",
    })
  })

  it("is left to the run if its schema converts text", () => {
    const spec = { name: "h", config: z.object({ n: z.coerce.number(), b: z.stringbool() }) }
    const config = { n: "{{ input.a }}{{ input.b }}", b: "t{{ input.rest }}" }
    const document = { name: "x", nodes: [{ id: "a", handler: "h", config }] }
    expect(validateWorkflow(document, { handlers: handlerCatalog([spec]) })).toEqual([])
  })
})

describe("the condition of the adapter filter", () => {
  const pipeline = (when: unknown) => ({
    name: "p",
    routes: [{ name: "r", inbound: "q", adapters: [{ type: "filter", config: { when } }] }],
  })

  it("is a problem if it can only yield text", () => {
    for (const when of ["x{{ message.a }}", "{% if message.a %}false{% endif %}", "false"])
      expect(problems(pipeline(when))).toEqual(["E102 routes[0].adapters[0].config.when"])
    for (const when of ["{{ message.a }}", true, 0, null]) expect(problems(pipeline(when))).toEqual([])
  })

  it("ignores white space around its expression", () => {
    const { plan } = compileWorkflow(pipeline("\n{{ message.a }} "), { handlers, adapters })
    expect(plan!.pipeline!.routes[0]!.adapters[0]!.config.source).toEqual({ when: "{{ message.a }}" })
  })
})
