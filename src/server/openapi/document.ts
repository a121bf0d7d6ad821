/**
 * The OpenAPI 3.1 document, made from the routes' own schemas: with a name for every operation, the scope that it needs,
 * and examples of what goes in and comes out.
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
          "Durable workflows. Errors are RFC 9457 problem documents with a code of docs/errors.md.",
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
        { name: "jobs", description: "Submitting, looking, commanding" },
        { name: "pipelines", description: "What jobs of pipelines have besides: lineage and dead letters" },
        { name: "tokens", description: "API tokens: who may do what" },
        { name: "providers", description: "External services and their webhooks" },
        { name: "server", description: "What this process says of itself" },
      ],
    },
    transform: transformed,
    transformObject: document => completed(jsonSchemaTransformObject(document) as Document) as never,
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

interface Content {
  schema?: Schema
  example?: unknown
  examples?: Record<string, { readonly value: object }>
}

interface Operation {
  requestBody?: { content?: Record<string, Content>; required?: boolean }
  responses?: Record<string, { description?: string; content?: Record<string, Content> }>
}

interface Document {
  readonly paths?: Record<string, Record<string, Operation>>
  readonly components?: { readonly schemas?: Schemas }
}

function completed(document: Document): Document {
  takeDocuments(document)
  takeWebhooks(document)
  const schemas = document.components?.schemas ?? {}
  for (const operation of Object.values(document.paths ?? {}).flatMap(methods => Object.values(methods))) {
    for (const [status, answer] of Object.entries(operation.responses ?? {})) {
      if (answer.description === "Default Response") answer.description = meanings[status] ?? "All is well"
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

/** An example of each that the description lists. */
function problemsIn(description: string): NonNullable<Content["examples"]> {
  const codes = (description.match(/\bE\d{3}\b/g) ?? []) as ErrorCode[]
  const value = (code: ErrorCode) => {
    const { title, status } = errorTable[code]
    return { type: `urn:umbra:error:${code}`, title, status, detail: "What is wrong, and what to do.", code }
  }
  return Object.fromEntries(codes.map(code => [code, { value: value(code) }]))
}

const meanings: Readonly<Record<string, string>> = {
  201: "It is made, and durable",
  202: "It is taken, and durable",
  204: "It is done",
  503: "Not now",
}

function contentsOf({ requestBody, responses = {} }: Operation): Content[] {
  return [requestBody, ...Object.values(responses)].flatMap(part => Object.values(part?.content ?? {}))
}

/** Workflows are taken as text, to tell lines and columns; what a caller sends is a JSON or YAML document. */
function takeDocuments({ paths = {} }: Document): void {
  for (const path of ["/workflows", "/workflows/validate"]) {
    const operation = paths[path]?.post
    if (operation === undefined) continue
    operation.requestBody = {
      required: true,
      content: {
        "application/json": {
          schema: { type: "object", description: "As schema/workflow.schema.json has it." },
          example: workflowExample,
        },
        "application/yaml": { schema: { type: "string" }, example: yamlExample },
      },
    }
  }
}

/** They are taken as bytes: a signature is over these. */
function takeWebhooks({ paths = {} }: Document): void {
  const operation = paths["/webhooks/{provider}"]?.post
  if (operation === undefined) return
  const schema = { description: "Whatever the provider sends, of any type." }
  operation.requestBody = {
    required: true,
    content: { "application/json": { schema, example: { id: "op-17", status: "succeeded" } } },
  }
}
