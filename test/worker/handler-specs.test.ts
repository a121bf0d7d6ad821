import { describe, expect, it } from "vitest"
import { z } from "zod"
import { builtinSpecs } from "../../src/worker/handlers/specs.ts"

function verdict(handler: string, config: unknown): readonly string[] {
  const spec = builtinSpecs.find(({ name }) => name === handler)
  const result = spec?.config?.["~standard"].validate(config)
  if (result === undefined || result instanceof Promise)
    throw new Error(`${handler} has no synchronous schema`)
  return (result.issues ?? []).map(({ path = [], message }) => `${path.map(String).join(".")}: ${message}`)
}

const url = "https://example.org/"

describe("S8 the built-in handlers' schemas", () => {
  it("are those of the eleven handlers", () => {
    expect(builtinSpecs.map(({ name }) => name)).toEqual([
      "input",
      "output",
      "transform",
      "sleep",
      "wait_for_signal",
      "workflow",
      "pipeline",
      "call_external_service",
      "store_media",
      "llm_service",
      "external",
    ])
  })

  it.each<[string, unknown]>([
    ["input", {}],
    ["input", undefined],
    ["pipeline", { pipeline: "crawl@stable", input: { url: "{{ input.url }}" } }],
    ["output", { any: ["thing"] }],
    ["output", undefined],
    ["transform", { value: null }],
    ["sleep", { seconds: 0 }],
    ["sleep", { until: "2026-01-01T00:00:00+02:00" }],
    ["wait_for_signal", { signal: "approval" }],
    ["wait_for_signal", { signal: "approval", timeout_seconds: 60, default: null }],
    ["call_external_service", { url }],
    ["call_external_service", { url, method: "POST", json: null, headers: { n: 1 }, query: { a: ["x", 2] } }],
    ["call_external_service", { url, text: "x", expected_status: [200, 404], follow_redirects: 3 }],
    ["llm_service", { model: "m", prompt: "p" }],
    ["llm_service", { model: "m", messages: [{ role: "user", content: "x" }], json: { type: "object" } }],
  ])("%s accepts %j", (handler, config) => {
    expect(verdict(handler, config)).toEqual([])
  })

  it.each<[string, unknown, RegExp]>([
    ["input", { x: 1 }, /Unrecognized key: "x"/],
    ["transform", {}, /^value: /],
    ["transform", { value: 1, val: 2 }, /"val"/],
    ["sleep", {}, /^seconds: Give either seconds or until/],
    ["sleep", { seconds: 1, until: "2026-01-01T00:00:00Z" }, /^seconds: Give either/],
    ["sleep", { seconds: -1 }, /^seconds: Too small/],
    ["sleep", { until: "tomorrow" }, /^until: Invalid ISO datetime/],
    ["sleep", { until: "2026-01-01T00:00:00" }, /^until: /],
    ["wait_for_signal", {}, /^signal: /],
    ["wait_for_signal", { signal: "a\nb" }, /^signal: text without control characters/],
    ["wait_for_signal", { signal: "x", timeout_seconds: 0 }, /^timeout_seconds: Too small/],
    ["wait_for_signal", { signal: "x", default: 1 }, /^default: A default needs timeout_seconds/],
    ["call_external_service", {}, /^url: /],
    ["call_external_service", { url: "file:///etc/passwd" }, /^url: An http or https URL is required/],
    ["call_external_service", { url, json: 1, text: "x" }, /^text: Give json or text/],
    ["call_external_service", { url, method: "get" }, /^method: /],
    ["call_external_service", { url, expected_status: 42 }, /^expected_status: /],
    ["call_external_service", { url, max_response_bytes: 2 ** 40 }, /^max_response_bytes: /],
    ["llm_service", { prompt: "p" }, /^model: /],
    ["llm_service", { model: "m" }, /^prompt: Give either prompt or messages/],
    ["llm_service", { model: "m", prompt: "p", messages: [{ role: "user", content: "x" }] }, /^prompt: Give/],
    ["llm_service", { model: "m", prompt: "p", temperature: 3 }, /^temperature: /],
  ])("%s refuses %j", (handler, config, message) => {
    expect(verdict(handler, config).join("\n")).toMatch(message)
  })

  it("describe every key of a config", () => {
    const undescribed = builtinSpecs.flatMap(({ name, config }) => {
      const { properties = {} } = z.toJSONSchema(config, { io: "input" })
      return Object.entries(properties).flatMap(([key, schema]) =>
        typeof schema === "object" && schema.description ? [] : [`${name}.${key}`],
      )
    })
    expect(undescribed).toEqual([])
  })
})
