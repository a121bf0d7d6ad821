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

  const route = { name: "a", inbound: "q", adapters: [{ type: "echo" }] }

  it.each<[string, unknown]>([
    ["a plain pipeline", { name: "x", routes: [route] }],
    [
      "every key of a pipeline",
      {
        $schema: "s",
        name: "x",
        description: "d",
        input: { type: "object" },
        ttl_seconds: 1,
        max_hops: 2,
        init: [{ queue: "q", body: [1] }, {}],
        routes: [
          {
            ...route,
            adapters: [{ type: "echo", config: { a: "{{ message }}" } }],
            outbound: { default: "q", other: "q" },
            run_on: "workers",
            concurrency: 1,
            prefetch: 1,
            rate: 0.5,
            backpressure: { adaptive: true, min_concurrency: 1, tolerance: 2, max_queued: 5 },
            error_handling: {
              retries: 0,
              backoff: { initial_seconds: 1 },
              circuit_breaker: { failure_rate: 1 },
              dead_letter: false,
            },
          },
          { ...route, outbound: "q", error_handling: { circuit_breaker: false } },
        ],
      },
    ],
    ["one initial message", { name: "x", init: { body: 1 }, routes: [route] }],
  ])("accepts %s", (_, pipeline) => {
    expect(validator.validate(pipeline).errors).toEqual([])
  })

  it.each<[string, unknown]>([
    ["nodes beside routes", { name: "x", routes: [route], nodes: [node] }],
    ["a route without adapters", { name: "x", routes: [{ ...route, adapters: [] }] }],
    ["an unknown key of a route", { name: "x", routes: [{ ...route, outbond: "q" }] }],
    [
      "a circuit breaker that is true",
      { name: "x", routes: [{ ...route, error_handling: { circuit_breaker: true } }] },
    ],
    ["an unknown key", { name: "x", nodes: [{ ...node, handlr: 1 }] }],
    ["a bad id", { name: "x", nodes: [{ ...node, id: "1" }] }],
    ["no name", { nodes: [node] }],
    ["a jitter over 1", { name: "x", nodes: [{ ...node, retry: { jitter: 2 } }] }],
  ])("refuses %s", (_, workflow) => {
    expect(validator.validate(workflow).valid).toBe(false)
  })
})
