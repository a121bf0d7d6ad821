/** What is wrong with a request is told to people: where, what should stand there, and what stands there. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { hello, openStage, type Stage } from "./stage.ts"

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
  await stage.umbra.register(hello as never, "local")
})
afterAll(() => stage.close())

const problemOf = async (path: string, asked?: Parameters<Stage["ask"]>[1]) => {
  const { status, body } = await stage.ask(path, asked)
  expect(status).toBe(400)
  expect(body.code).toBe("E633")
  return body
}

describe("a request that is not valid", () => {
  it.each([
    ["/workflows", "application/yaml", "name: caf\xe9\nnodes: [{ id: a, handler: input }]\n"],
    ["/jobs", "application/json", '{"workflow": "hello", "input": {"name": "Ren\xe9"}}'],
  ])(
    "S2 %s in another encoding than UTF-8, which would be stored as other text",
    async (path, type, text) => {
      const asked = { method: "POST", headers: { "content-type": type }, body: Buffer.from(text, "latin1") }
      expect((await problemOf(path, asked)).detail).toBe("Request body is not UTF-8 text. Send it as UTF-8.")
    },
  )

  it.each([
    ["/jobs?limit=0", 'The parameter limit must be at least 1; it is "0".'],
    ["/jobs?limit=many", 'The parameter limit must be a number; it is "many".'],
    ["/jobs?limit=2000", 'The parameter limit must be at most 1000; it is "2000".'],
    ["/jobs?limit=1&limit=2", "The parameter limit is given 2 times; give it once."],
    ["/jobs?stauts=FAILED", "The parameter stauts is unknown; did you mean status?"],
    ["/jobs?deleted=yes", 'The parameter deleted must be true or false; it is "yes".'],
    ["/jobs?status=DONE", /^The parameter status must be one of PENDING, /],
    [
      "/jobs?created_from=yesterday",
      'The parameter created_from must be a time with its zone, such as 2026-11-15T12:00:00Z; it is "yesterday".',
    ],
    ["/workflows/hello/diff?from=1", "The parameter to is missing; it must be a number."],
    ["/workflows/hello/versions/newest", '{version} in the path must be a number; it is "newest".'],
    [
      "/workflows/hello/versions/99999999999999999999",
      /^\{version\} in the path must be at most 2147483647; it is "99999999999999999999"\.$/,
    ],
    ["/workflows/a%00b", '{name} in the path must not contain the character U+0000; it is "a\\u0000b".'],
  ])("S2 %s", async (path, detail) => {
    expect((await problemOf(path)).detail).toMatch(detail)
  })

  it.each<[string, unknown, string | RegExp]>([
    ["no body", undefined, "The body is missing; it must be an object."],
    ["an empty list", [], /^The body must be an object\.$/],
    ["a list", [1], "The body must be an object; it is a list."],
    ["no workflow", {}, "workflow in the body is missing; it must be text."],
    ["a wrong type", { workflow: 7 }, "workflow in the body must be text; it is 7."],
    ["an empty text", { workflow: "" }, /^workflow in the body must not be empty\.$/],
    [
      "half a priority",
      { workflow: "hello", priority: 1.5 },
      "priority in the body must be a whole number; it is 1.5.",
    ],
    [
      "a priority beyond counting",
      { workflow: "hello", priority: 1e100 },
      /^priority in the body must be at most 1000; it is 1e\+100\.$/,
    ],
    [
      "no time",
      { workflow: "hello", ttl_seconds: 0 },
      "ttl_seconds in the body must be more than 0; it is 0.",
    ],
    [
      "a misspelt key",
      { workflow: "hello", inputs: {} },
      "inputs in the body is unknown; did you mean input?",
    ],
    [
      "a key of another world",
      { workflow: "hello", mind: 1 },
      "mind in the body is unknown; allowed: workflow, input, priority, ttl_seconds, labels, start_at, delay_seconds.",
    ],
    [
      "a label without a name",
      { workflow: "hello", labels: { "": "x" } },
      'labels[""] in the body has a name that must not be empty.',
    ],
    [
      "a label that is no text",
      { workflow: "hello", labels: { a: 1 } },
      "labels.a in the body must be text; it is 1.",
    ],
  ])("S2 POST /jobs with %s", async (_, body, detail) => {
    expect((await problemOf("/jobs", { method: "POST", body })).detail).toMatch(detail)
  })

  it.each(["{bad", '{"__proto__": {}}'])("S2 POST /jobs with %s, which is no JSON to take", async body => {
    const headers = { "content-type": "application/json" }
    expect((await problemOf("/jobs", { method: "POST", body, headers })).detail).toMatch(
      /^Request body is not valid JSON/,
    )
  })

  it("S2 names the header, the entry of a list, and what an alias may be", async () => {
    const headers = { "idempotency-key": "x".repeat(256) }
    expect((await problemOf("/jobs", { method: "POST", body: { workflow: "hello" }, headers })).detail).toBe(
      "The header idempotency-key must have at most 255 characters; it has 256.",
    )
    const jobs = [{ workflow: "hello" }, { workflow: "hello", prio: 1 }]
    expect((await problemOf("/jobs/bulk", { method: "POST", body: { jobs } })).errors).toEqual([
      {
        path: "body.jobs.1.prio",
        message:
          "is unknown; allowed: workflow, input, priority, ttl_seconds, labels, start_at, delay_seconds, idempotency_key",
      },
    ])
    const alias = (body: unknown) => problemOf("/workflows/hello/aliases/stable", { method: "PUT", body })
    expect((await alias({ version: "1" })).detail).toMatch(
      /^The body must be \{"version": 3\}, or \{"weights"/,
    )
    expect((await alias({ 1: -1 })).detail).toBe('["1"] in the body must be at least 0; it is -1.')
  })

  it("S2 all problems are reported at once; the sentence stays short, the list is complete", async () => {
    const jobs = Array.from({ length: 50 }, () => ({}))
    const { detail, errors } = await problemOf("/jobs/bulk", { method: "POST", body: { jobs } })
    expect(errors).toHaveLength(50)
    expect(detail).toMatch(/^jobs\[0\]\.workflow in the body is missing; it must be text\. .* And 45 more\.$/)
  })

  it("S2 a workflow that is not valid says how many problems it has, one that is not there that", async () => {
    const push = (text: string) =>
      stage.ask("/workflows/validate", {
        method: "POST",
        body: text,
        headers: { "content-type": "text/yaml" },
      })
    const one = await push("name: x\nnodes:\n  - id: a\n    handler: nothing\n")
    expect(one.body.detail).toBe("The workflow has a problem.")
    const two = await push("name: x\nnodes:\n  - id: a\n    handler: nothing\n    dependencies: [b]\n")
    expect(two.body.detail).toBe("The workflow has 2 problems.")
    const none = await problemOf("/workflows", { method: "POST" })
    expect(none.detail).toBe("The body is missing; it must be a workflow, as JSON or YAML.")
  })

  it("S2 no response mentions schemas, what was received, or NaN", async () => {
    for (const path of [
      "/jobs?limit=x",
      "/jobs?limit=0",
      "/jobs?after=x",
      "/workflows?limit=x&y=1",
      "/tokens?owner=",
    ])
      expect(JSON.stringify(await problemOf(path))).not.toMatch(
        /NaN|received|Invalid|Too |Unrecognized|expected/,
      )
  })
})
