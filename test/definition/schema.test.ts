import { type Schema, Validator } from "@cfworker/json-schema"
import { describe, expect, it } from "vitest"
import { workflowJsonSchema } from "../../src/definition/index.ts"

describe("the JSON Schema for editors", () => {
  const validator = new Validator(workflowJsonSchema() as Schema, "2020-12")
  const node = { id: "a", handler: "echo" }

  it.each<[string, unknown]>([
    ["a plain workflow", { name: "x", nodes: [node] }],
    [
      "every key",
      {
        $schema: "s",
        name: "x",
        description: "d",
        input: { type: "object" },
        output: ["{{ a }}"],
        ttl_seconds: 1,
        nodes: [
          {
            ...node,
            config: { a: [1] },
            dependencies: ["b"],
            timeout_seconds: 1,
            retry: { jitter: 0 },
            when: "{{ b }}",
            provider: "p",
            for_each: [1],
            max_parallel: 2,
          },
        ],
      },
    ],
  ])("accepts %s", (_, workflow) => {
    expect(validator.validate(workflow).errors).toEqual([])
  })

  it.each<[string, unknown]>([
    ["an unknown key", { name: "x", nodes: [{ ...node, handlr: 1 }] }],
    ["a bad id", { name: "x", nodes: [{ ...node, id: "1" }] }],
    ["no name", { nodes: [node] }],
    ["a jitter over 1", { name: "x", nodes: [{ ...node, retry: { jitter: 2 } }] }],
  ])("refuses %s", (_, workflow) => {
    expect(validator.validate(workflow).valid).toBe(false)
  })
})
