import { describe, expect, it } from "vitest"
import { z } from "zod"
import { compileWorkflow, handlerCatalog, loadWorkflow, type Plan } from "../../src/definition/index.ts"
import { expr, orElse, text, workflow } from "../../src/definition/typed/builder.ts"
import { builtinSpecs } from "../../src/worker/handlers/specs.ts"
import { fetchPage, llm } from "./types/handlers.ts"

const handlers = handlerCatalog([fetchPage, llm, ...builtinSpecs])

function planOf(result: ReturnType<typeof compileWorkflow>): Plan {
  if (result.plan === undefined) throw new Error(JSON.stringify(result.problems))
  return result.plan
}

const built = workflow(
  "digest",
  { input: z.object({ url: z.string(), limit: z.number().default(10) }), ttlSeconds: 3600 },
  flow => {
    const page = flow.node("page", fetchPage, { url: flow.input.url, headers: { "x-job": flow.job.id } })
    const pause = flow.node("pause", { name: "sleep" }, { seconds: 1 })
    const short = flow.node(
      "short-text",
      llm,
      { prompt: text`Summarize in ${flow.input.limit} words: ${page.output.body}` },
      {
        after: [pause],
        timeoutSeconds: 60,
        heartbeatSeconds: 5,
        retry: { maxAttempts: 5 },
        when: expr<boolean>`${page.output.status} == 200`,
      },
    )
    const facts = flow.transform("facts", {
      first: page.output.items[0].name,
      type: page.output["content-type"],
      title: orElse(page.output.title, "untitled"),
    })
    return { summary: orElse(short.output.text, ""), facts: facts.output }
  },
)

const yaml = `
name: digest
ttl_seconds: 3600
output:
  facts: "{{ facts }}"
  summary: "{{ nodes[\\"short-text\\"].text | default(\\"\\") }}"
input:
  type: object
  required: [url]
  properties:
    limit: { type: number, default: 10 }
    url: { type: string }
nodes:
  - handler: fetch_page
    id: page
    config:
      headers: { x-job: "{{ job.id }}" }
      url: "{{ input.url }}"
  - { id: pause, handler: sleep, config: { seconds: 1 } }
  - id: short-text
    handler: llm
    dependencies: [page, pause]
    timeout_seconds: 60
    heartbeat_seconds: 5
    retry: { max_attempts: 5 }
    when: "{{ page.status == 200 }}"
    config:
      prompt: "Summarize in {{ input.limit }} words: {{ page.body }}"
  - id: facts
    handler: transform
    config:
      value:
        first: "{{ page.items[0].name }}"
        type: '{{ page["content-type"] }}'
        title: '{{ page.title | default("untitled") }}'
`

describe("J3 a built workflow is the hand-written one", () => {
  const fromBuilder = planOf(compileWorkflow(built.definition, { handlers }))

  it("has the hash and the canonical content of the same workflow in YAML", () => {
    const fromYaml = planOf(loadWorkflow(yaml, { handlers }))
    expect(fromBuilder.canonical).toEqual(fromYaml.canonical)
    expect(fromBuilder.hash).toBe(fromYaml.hash)
  })

  it("has the hash of its own JSON text", () => {
    const fromJson = planOf(loadWorkflow(JSON.stringify(built.definition), { handlers }))
    expect(fromJson.hash).toBe(fromBuilder.hash)
  })

  it("has its dependencies from the refs and from after", () => {
    const { starts, items } = fromBuilder.dependencies
    const parents = (id: string) => {
      const i = fromBuilder.positions.get(id) as number
      return Array.from(items.subarray(starts[i], starts[i + 1]), p => fromBuilder.nodes[p]?.id)
    }
    expect(parents("page")).toEqual([])
    expect(parents("short-text")).toEqual(["page", "pause"])
    expect(parents("facts")).toEqual(["page"])
  })

  it("has another hash when anything in it differs", () => {
    const other = { ...built.definition, ttl_seconds: 3601 }
    expect(planOf(compileWorkflow(other, { handlers })).hash).not.toBe(fromBuilder.hash)
  })
})
