/** The published document: what somebody who never saw the code can find out from it. */
import { Validator } from "@cfworker/json-schema"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { errorTable } from "../../src/errors.ts"
import { knownScopes } from "../../src/server/auth/tokens.ts"
import { openStage, type Stage } from "./stage.ts"

interface Content {
  readonly schema: object
  readonly example?: unknown
  readonly examples?: Record<string, { value: { code: string; status: number } }>
}
interface Operation {
  readonly operationId: string
  readonly tags: string[]
  readonly security: Record<string, string[]>[]
  readonly requestBody?: { readonly content: Record<string, Content> }
  readonly responses: Record<string, { description: string; content?: Record<string, Content> }>
  readonly parameters?: { name: string; in: string; schema: object }[]
}

let stage: Stage
// biome-ignore lint/suspicious/noExplicitAny: a document of JSON.
let document: any
let operations: [string, Operation][]
let page: string
beforeAll(async () => {
  stage = await openStage()
  document = (await stage.ask("/openapi.json")).body
  operations = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, Operation] => [
      `${method} ${path}`,
      operation,
    ]),
  )
  page = (await stage.ask("/docs")).body
})
afterAll(() => stage.close())

const fits = (schema: object, value: unknown) => {
  const validator = new Validator({ ...schema, components: document.components } as never, "2020-12")
  return validator.validate(value).errors
}

describe("the OpenAPI document", () => {
  it("S2 shows a whole example of every body and every good answer, and each fits its schema", () => {
    for (const [name, { requestBody, responses }] of operations) {
      const good = Object.entries(responses).filter(([status]) => /^2/.test(status) && status !== "204")
      for (const { content = {} } of [requestBody ?? {}, ...good.map(([, answer]) => answer)])
        for (const [type, { schema, example, examples = {} }] of Object.entries(content)) {
          const shown = example === undefined ? Object.values(examples).map(({ value }) => value) : [example]
          expect(shown, `${name} ${type}`).not.toEqual([])
          for (const each of shown) expect(fits(schema, each), `${name} ${type}`).toEqual([])
        }
      for (const [status] of good)
        expect(Object.keys(responses[status]!.content ?? {}), `${name} ${status}`).not.toEqual([])
    }
  })

  it("S2 shows a problem document for every code that an operation may answer with", () => {
    for (const [name, { responses }] of operations) {
      const bad = Object.entries(responses).filter(([, { content }]) => content?.["application/problem+json"])
      expect(bad.length, name).toBeGreaterThan(1)
      for (const [status, { content, description }] of bad) {
        const { examples = {}, schema } = content!["application/problem+json"]!
        expect(Object.keys(examples).length, `${name} ${status}`).toBeGreaterThan(0)
        for (const [code, { value }] of Object.entries(examples)) {
          expect(value).toMatchObject({
            code,
            status: Number(status),
            title: errorTable[code as "E301"].title,
          })
          expect(fits(schema, value)).toEqual([])
          expect(description).toContain(code)
        }
      }
    }
  })

  it("S3 says which scope each operation needs", () => {
    for (const [name, { security }] of operations) {
      const isPublic =
        name.endsWith(" /session") ||
        ["get /health", "get /ready", "post /webhooks/{provider}"].includes(name)
      expect(security, name).toEqual(isPublic ? [] : [{ token: [expect.toBeOneOf([...knownScopes])] }])
    }
  })

  it("S2 names every operation once, and has each in a chapter", () => {
    const names = operations.map(([, { operationId }]) => operationId)
    expect(new Set(names).size).toBe(names.length)
    for (const name of names) expect(name).toMatch(/^(get|post|put|delete)(_[a-z]+)+$/)
    const chapters = document.tags.map(({ name }: { name: string }) => name)
    for (const [name, { tags }] of operations) expect(chapters, name).toEqual(expect.arrayContaining(tags))
  })

  it("S2 every parameter has a schema and an example or a list of values", () => {
    for (const [name, { parameters = [] }] of operations)
      for (const { name: parameter, schema } of parameters)
        expect(JSON.stringify(schema), `${name} ${parameter}`).toMatch(/"(example|examples|enum|const)":/)
  })
})

describe("/docs", () => {
  it("S2 has every operation, with its scope, its examples and its errors, and a list of all", () => {
    for (const [name, { operationId }] of operations) {
      const [method = "", path = ""] = name.split(" ")
      expect(page, name).toContain(`<section id="${operationId}">`)
      expect(page, name).toContain(`<a href="#${operationId}"><span class="${method}">`)
      expect(page, name).toContain(`<code>${path}</code>`)
    }
    for (const name of Object.keys(document.components.schemas))
      expect(page).toContain(`<summary>${name}</summary>`)
    expect(page).toContain("Needs the scope submit.")
    expect(page).toContain("E306 idempotency key used for another submission")
    expect(page).toContain("order@stable")
    expect(page).toContain("Whole number, 1 to 1000, default 50.")
  })
})
