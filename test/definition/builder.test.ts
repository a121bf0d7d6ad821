import { inspect } from "node:util"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import {
  type AnyFlow,
  cast,
  expr,
  type Flow,
  orElse,
  text,
  workflow,
} from "../../src/definition/typed/builder.ts"
import { erased, fetchPage, llm, opaque } from "./types/handlers.ts"

/** The config of a node `n` built with the given function. */
function configOf(build: (flow: Flow<{ a: string }>) => object): unknown {
  const built = workflow("w", { input: z.object({ a: z.string() }) }, flow => {
    flow.node("n", opaque, build(flow) as Record<string, never>)
  })
  return built.definition.nodes.find(node => node.id === "n")?.config
}

const page = (flow: AnyFlow) => flow.node("page", fetchPage, { url: "https://example.org" })

/** The node `page` of a workflow that is done. */
function finishedPage(): ReturnType<typeof page> {
  const kept: ReturnType<typeof page>[] = []
  workflow("finished", flow => void kept.push(page(flow)))
  return kept[0] as ReturnType<typeof page>
}

describe("J3 the typed builder writes the definition a person would write", () => {
  it("writes refs as templates, options in snake_case, and nothing that was not said", () => {
    const built = workflow(
      "summarize",
      {
        input: z.object({ url: z.string(), limit: z.number().default(10) }),
        description: "Short.",
        ttlSeconds: 60,
      },
      flow => {
        const page = flow.node("page", fetchPage, { url: flow.input.url, headers: undefined })
        const other = flow.node("other", opaque)
        const short = flow.node(
          "short",
          llm,
          { prompt: text`Summarize: ${page.output.body}` },
          {
            timeoutSeconds: 60,
            retry: { maxAttempts: 5, jitter: 0 },
            when: expr<boolean>`${page.output.status} == 200`,
            after: [other],
            provider: "openai",
          },
        )
        return { summary: orElse(short.output.text, "none"), pages: [page.output] }
      },
    )
    expect(built.definition).toEqual({
      name: "summarize",
      description: "Short.",
      input: {
        type: "object",
        properties: { url: { type: "string" }, limit: { type: "number", default: 10 } },
        required: ["url"],
      },
      nodes: [
        { id: "page", handler: "fetch_page", config: { url: "{{ input.url }}" } },
        { id: "other", handler: "opaque" },
        {
          id: "short",
          handler: "llm",
          config: { prompt: "Summarize: {{ page.body }}" },
          dependencies: ["other"],
          timeout_seconds: 60,
          retry: { max_attempts: 5, jitter: 0 },
          when: "{{ page.status == 200 }}",
          provider: "openai",
        },
      ],
      output: { summary: '{{ short.text | default("none") }}', pages: ["{{ page }}"] },
      ttl_seconds: 60,
    })
    expect(JSON.parse(JSON.stringify(built.definition))).toEqual(built.definition)
    expect(built.handlers).toEqual([fetchPage, opaque, llm])
  })

  it("leaves output out when nothing is returned", () => {
    expect(workflow("w", () => {}).definition).toEqual({ name: "w", nodes: [] })
  })

  it("writes a transform with its value, and for_each with item and index", () => {
    const { definition } = workflow("w", flow => {
      const first = page(flow)
      const picked = flow.transform("picked", { name: first.output.items[0].name, tags: ["a", 1, null] })
      flow.each("each", llm, first.output.items, (item, i) => ({ prompt: text`${i}: ${item.name}` }), {
        maxParallel: 4,
      })
      return picked.output.name
    })
    expect(definition.nodes.slice(1)).toEqual([
      {
        id: "picked",
        handler: "transform",
        config: { value: { name: "{{ page.items[0].name }}", tags: ["a", 1, null] } },
      },
      {
        id: "each",
        handler: "llm",
        config: { prompt: "{{ index }}: {{ item.name }}" },
        for_each: "{{ page.items }}",
        max_parallel: 4,
      },
    ])
    expect(definition.output).toBe("{{ picked.name }}")
  })
})

describe("paths", () => {
  it("writes plain names with dots, other keys and words of the language in brackets, indexes as numbers", () => {
    const config = configOf(flow => {
      const { output } = page(flow)
      const loose = output.loose
      return {
        hyphen: output["content-type"],
        index: output.items[3].name,
        last: output.items[-1].name,
        word: loose.if.else,
        quote: loose['a"b'],
        plain: loose._a1,
      }
    })
    expect(config).toEqual({
      hyphen: '{{ page["content-type"] }}',
      index: "{{ page.items[3].name }}",
      last: "{{ page.items[-1].name }}",
      word: '{{ page.loose["if"]["else"] }}',
      quote: '{{ page.loose["a\\"b"] }}',
      plain: "{{ page.loose._a1 }}",
    })
  })

  it("reaches a node with a hyphen through nodes", () => {
    const config = configOf(flow => ({ x: flow.node("my-page", fetchPage, { url: "x" }).output.body }))
    expect(config).toEqual({ x: '{{ nodes["my-page"].body }}' })
  })

  it("reads input, job and secrets", () => {
    const config = configOf(flow => ({ a: flow.input.a, id: flow.job.id, key: flow.secret("API_KEY") }))
    expect(config).toEqual({ a: "{{ input.a }}", id: "{{ job.id }}", key: "{{ secrets.API_KEY }}" })
  })
})

describe("expressions", () => {
  it("puts parentheses around what is not atomic, and only there", () => {
    const config = configOf(flow => {
      const { output } = page(flow)
      const count = expr<number>`${output.items} | length`
      return {
        sum: expr`${count} + ${output.status} + ${-1}`,
        field: orElse(output.meta, { lang: "en" }).lang,
        chain: orElse(orElse(output.title, flow.input.a), "x"),
        literals: expr`${[null, true, 'it\'s "x"', { k: output.body }]} | tojson`,
      }
    })
    expect(config).toEqual({
      sum: "{{ (page.items | length) + page.status + (-1) }}",
      field: '{{ (page.meta | default({"lang": "en"})).lang }}',
      chain: '{{ (page.title | default(input.a)) | default("x") }}',
      literals: '{{ [none, true, "it\'s \\"x\\"", {"k": page.body}] | tojson }}',
    })
  })

  it("keeps a hand-written template to the letter, and takes a single one apart for reuse", () => {
    const config = configOf(() => ({
      whole: expr<number>("{{page.items|length}}"),
      bare: expr<number>("page.items | length"),
      field: expr<{ x: number }>("{{ page.y }}").x,
      reused: expr`${expr<number>("{{- page.items | length -}}")} * 2`,
      statements: expr<string>("{% if input.a %}yes{% endif %}"),
    }))
    expect(config).toEqual({
      whole: "{{page.items|length}}",
      bare: "{{ page.items | length }}",
      field: "{{ (page.y).x }}",
      reused: "{{ (page.items | length) * 2 }}",
      statements: "{% if input.a %}yes{% endif %}",
    })
  })

  it("refuses to build on template text that is no expression, and an empty expression", () => {
    const statements = expr<{ x: number }>("{{ a }}{{ b }}")
    expect(() => statements.x).toThrow(/cannot be part of a larger expression/)
    expect(() => expr`${statements} + 1`).toThrow(/cannot be part of a larger expression/)
    expect(() => expr`  `).toThrow(/empty/)
    expect(() => expr("{{ }}")).toThrow(/empty/)
  })

  it("casts without leaving a trace", () => {
    expect(configOf(flow => ({ x: cast<{ n: number }>(page(flow).output.raw).n }))).toEqual({
      x: "{{ page.raw.n }}",
    })
  })
})

describe("misuse of refs is never silent", () => {
  const ref = finishedPage().output.body

  it.each<[string, () => unknown, RegExp]>([
    ["template literal", () => `${ref}`, /\{\{ page\.body \}\} cannot be converted to text.*text`/],
    ["concatenation", () => `a ${String(ref)}`, /cannot be converted to text/],
    ["number", () => Number(ref), /cannot be converted to/],
    ["spread", () => ({ ...ref }), /cannot be spread/],
    ["keys", () => Object.keys(ref), /cannot be spread or listed/],
    ["iteration", () => [...(ref as unknown as string[])], /cannot be iterated/],
    ["JSON", () => JSON.stringify({ ref }), /cannot be serialised.*tojson/],
    ["assignment", () => Object.assign(ref, { x: 1 }), /cannot be changed/],
    ["deletion", () => Reflect.deleteProperty(ref, "x"), /cannot be changed/],
    ["definition", () => Object.defineProperty(ref, "x", {}), /cannot be changed/],
  ])("%s", (_, use, message) => {
    expect(use).toThrow(message)
  })

  it("can be awaited and logged", async () => {
    expect(inspect(await ref)).toBe("Ref {{ page.body }}")
    expect(inspect({ ref })).toBe("{ ref: Ref {{ page.body }} }")
  })

  it("is the same object each time it is read", () => {
    const { output } = finishedPage()
    const first = output.items[0]
    expect(output.items[0] === first).toBe(true)
  })
})

describe("what cannot be part of a definition is refused where it is written", () => {
  const circular: Record<string, unknown> = {}
  circular.self = circular

  it.each<[string, unknown, RegExp]>([
    ["a function", () => 1, /nodes\.n\.config\.v is function/],
    ["a date", new Date(0), /nodes\.n\.config\.v is a Date.*toISOString/],
    ["a bigint", 1n, /is bigint/],
    ["NaN", Number.NaN, /is NaN/],
    ["a hole", [undefined], /nodes\.n\.config\.v\[0\] is undefined/],
    ["a cycle", circular, /nodes\.n\.config\.v\.self is a value that contains itself/],
  ])("%s", (_, v, message) => {
    expect(() => configOf(() => ({ v }))).toThrow(message)
  })

  it("a node where its output is meant", () => {
    expect(() => configOf(flow => ({ v: page(flow) }))).toThrow(/Pass the node's output: page\.output/)
  })

  it("ids: duplicate, reserved, malformed, too long", () => {
    const add = (id: string) => () => workflow("w", flow => void flow.node(id, opaque))
    expect(() => configOf(flow => ({ a: flow.node("n", opaque).output }))).toThrow(
      expect.objectContaining({ code: "E104" }),
    )
    for (const id of ["input", "nodes", "loop", "1a", "a b", "", "a".repeat(129)]) {
      expect(add(id), id).toThrow(expect.objectContaining({ code: "E101" }))
    }
  })

  it("refs and nodes of another workflow, and the item of another node", () => {
    const foreign = finishedPage()
    const { output } = foreign
    expect(() => configOf(() => ({ v: output.body }))).toThrow(expect.objectContaining({ code: "E111" }))
    expect(() => configOf(() => ({ v: text`a ${orElse(output.title, "x")}` }))).toThrow(/another workflow/)
    expect(() => workflow("w", () => output.body)).toThrow(/output uses \{\{ page\.body \}\}/)
    expect(() => workflow("w", flow => void flow.node("n", opaque, {}, { after: [foreign] }))).toThrow(
      expect.objectContaining({ code: "E105" }),
    )
    expect(() =>
      configOf(flow => {
        let leaked: unknown
        flow.each("e", llm, [{ name: "x" }], item => {
          leaked = item.name
          return { prompt: item.name }
        })
        return { v: leaked }
      }),
    ).toThrow(/item of another node/)
  })

  it("two handlers under one name", () => {
    expect(() =>
      workflow("w", flow => {
        flow.node("a", erased, { n: 1 })
        flow.node("b", { ...erased }, { n: 1 })
      }),
    ).toThrow(/two different handlers called "erased"/)
  })
})

describe("J14 workflows that run others", () => {
  const child = workflow("child", { input: z.object({ n: z.number() }) }, flow => flow.input.n)

  it("become nodes with handler workflow, and know their children", () => {
    const built = workflow("parent", { input: z.object({ list: z.array(z.number()) }) }, flow => {
      flow.run("one", child, { n: 1 }, { at: 3, timeoutSeconds: 60 })
      flow.run("two", child)
      flow.runEach(
        "all",
        child,
        flow.input.list,
        (item, index) => ({ n: expr<number>`${item} + ${index}` }),
        {
          maxParallel: 4,
          failFast: false,
          at: "stable",
        },
      )
    })
    expect(built.definition.nodes).toEqual([
      {
        id: "one",
        handler: "workflow",
        config: { workflow: "child@3", input: { n: 1 } },
        timeout_seconds: 60,
      },
      { id: "two", handler: "workflow", config: { workflow: "child" } },
      {
        id: "all",
        handler: "workflow",
        config: { workflow: "child@stable", input: { n: "{{ item + index }}" } },
        for_each: "{{ input.list }}",
        max_parallel: 4,
        fail_fast: false,
      },
    ])
    expect(built.workflows).toEqual([child])
    expect(built.handlers).toEqual([])
  })

  it("refuse two different workflows of one name", () => {
    const twin = workflow("child", flow => void flow.transform("a", 1))
    expect(() =>
      workflow("w", flow => {
        flow.run("a", child, { n: 1 })
        flow.run("b", twin)
      }),
    ).toThrow(/runs two different workflows called "child"/)
  })
})

describe("input schemas", () => {
  const build = (input: z.ZodType) => () => workflow("w", { input }, () => {})

  it.each<[string, z.ZodType]>([
    ["transform", z.object({ a: z.string().transform(Number) })],
    ["pipe", z.object({ a: z.string().pipe(z.string()) })],
    ["coerce", z.object({ a: z.coerce.number() })],
    ["trim", z.object({ a: z.string().trim() })],
    ["refine", z.object({ a: z.string().refine(a => a !== "") })],
  ])("refuses %s, which JSON Schema cannot say", (_, schema) => {
    expect(build(schema)).toThrow(
      /input of workflow "w" cannot be expressed as JSON Schema: a .*inputJsonSchema/,
    )
  })

  it("takes a given JSON Schema beside any Standard Schema, and says so where it is missing", () => {
    const foreign = {
      "~standard": {
        version: 1 as const,
        vendor: "tiny",
        validate: (value: unknown) => ({ value: value as number }),
      },
    }
    const built = workflow("w", { input: foreign, inputJsonSchema: { type: "number" } }, flow => flow.input)
    expect(built.definition).toMatchObject({ input: { type: "number" }, output: "{{ input }}" })
    expect(() => workflow("w", { input: foreign as never }, () => {})).toThrow(/tiny.*inputJsonSchema/)
  })
})
