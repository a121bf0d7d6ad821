/**
 * The OpenAPI 3.1 document, built from the routes' own schemas: every operation has a name, the scope that it needs, and
 * examples of its request and its answers.
 */
import swagger from "@fastify/swagger"
import { jsonSchemaTransform, jsonSchemaTransformObject } from "fastify-type-provider-zod"
import { type ErrorCode, errorTable } from "../../errors.ts"
import type { App } from "../route-context.ts"
import { exampleOf, type Schema, type Schemas } from "../schemas/examples.ts"

const workflowExample = {
  name: "order",
  nodes: [
    { id: "price", handler: "transform", config: { value: "{{ input.amount * 2 }}" } },
    {
      id: "result",
      handler: "output",
      config: { value: "{{ nodes.price.output }}" },
      dependencies: ["price"],
    },
  ],
}

const yamlExample = `name: order
nodes:
  - id: price
    handler: transform
    config:
      value: "{{ input.amount * 2 }}"
`

export async function publish(app: App, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "Umbra",
        version,
        description:
          "Durable workflows. Errors are RFC 9457 problem documents with a code of docs/reference/errors.md.",
      },
      components: {
        securitySchemes: {
          token: {
            type: "http",
            scheme: "bearer",
            description: "An API token or a JWT with the scope that the operation names, or with admin.",
          },
        },
      },
      tags: [
        { name: "workflows", description: "Definitions, their versions and aliases" },
        { name: "jobs", description: "Submit, query and control jobs" },
        { name: "pipelines", description: "Lineage and dead letters of jobs that run pipelines" },
        { name: "tokens", description: "API tokens and their scopes" },
        { name: "providers", description: "External services and their webhooks" },
        { name: "server", description: "Health, metrics and workers of this process" },
      ],
    },
    transform: transformed,
    transformObject: document => completed(jsonSchemaTransformObject(document) as ApiDocument) as never,
  })
}

type Transform = typeof jsonSchemaTransform

const transformed: Transform = input => {
  const { schema, url } = jsonSchemaTransform(input)
  const { method, config } = input.route
  const scope = config?.scope ?? "admin"
  return {
    url,
    schema: {
      ...schema,
      operationId: [[method].flat()[0]!.toLowerCase(), ...url.split(/[^A-Za-z]+/)].filter(Boolean).join("_"),
      security: scope === "none" ? [] : [{ token: [scope] }],
    },
  }
}

export interface Content {
  schema?: Schema
  example?: unknown
  examples?: Record<string, { readonly value: object }>
}

export interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description?: string
  readonly schema?: Schema
}

export interface Operation {
  readonly operationId?: string
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[]
  readonly parameters?: readonly Parameter[]
  requestBody?: { content?: Record<string, Content>; required?: boolean }
  responses?: Record<string, { description?: string; content?: Record<string, Content> }>
}

export interface ApiDocument {
  readonly info: { readonly title: string; readonly version: string; readonly description?: string }
  readonly tags?: readonly { readonly name: string; readonly description?: string }[]
  readonly paths?: Record<string, Record<string, Operation>>
  readonly components?: { readonly schemas?: Schemas }
}

function completed(document: ApiDocument): ApiDocument {
  takeDocuments(document)
  takeWebhooks(document)
  const schemas = document.components?.schemas ?? {}
  for (const operation of Object.values(document.paths ?? {}).flatMap(methods => Object.values(methods))) {
    for (const [status, answer] of Object.entries(operation.responses ?? {})) {
      if (answer.description === "Default Response") answer.description = meanings[status] ?? "Success"
      const problem = answer.content?.["application/problem+json"]
      if (problem !== undefined) problem.examples = problemsIn(answer.description ?? "")
    }
    for (const content of contentsOf(operation)) {
      const example = content.examples === undefined ? exampleOf(content.schema, schemas) : undefined
      if (example !== undefined) content.example ??= example
    }
  }
  return document
}

/** An example of each error that the description lists. */
function problemsIn(description: string): NonNullable<Content["examples"]> {
  const codes = (description.match(/\bE\d{3}\b/g) ?? []) as ErrorCode[]
  const value = (code: ErrorCode) => {
    const { title, status } = errorTable[code]
    return { type: `urn:umbra:error:${code}`, title, status, detail: "What is wrong, and what to do.", code }
  }
  return Object.fromEntries(codes.map(code => [code, { value: value(code) }]))
}

const meanings: Readonly<Record<string, string>> = {
  201: "Created and durable",
  202: "Accepted and durable",
  204: "Done",
  503: "Temporarily unavailable",
}

function contentsOf({ requestBody, responses = {} }: Operation): Content[] {
  return [requestBody, ...Object.values(responses)].flatMap(part => Object.values(part?.content ?? {}))
}

/** The server reads workflows as text, to report lines and columns; callers send a JSON or YAML document. */
function takeDocuments({ paths = {} }: ApiDocument): void {
  for (const path of ["/workflows", "/workflows/validate"]) {
    const operation = paths[path]?.post
    if (operation === undefined) continue
    operation.requestBody = {
      required: true,
      content: {
        "application/json": {
          schema: { type: "object", description: "Described by schema/workflow.schema.json." },
          example: workflowExample,
        },
        "application/yaml": { schema: { type: "string" }, example: yamlExample },
      },
    }
  }
}

/** The server reads webhooks as bytes, since the signature covers the bytes. */
function takeWebhooks({ paths = {} }: ApiDocument): void {
  const operation = paths["/webhooks/{provider}"]?.post
  if (operation === undefined) return
  const schema = { description: "The body that the provider sends, of any type." }
  operation.requestBody = {
    required: true,
    content: { "application/json": { schema, example: { id: "op-17", status: "succeeded" } } },
  }
}
