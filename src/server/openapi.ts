/** The OpenAPI 3.1 document, made from the routes' own schemas. */
import swagger from "@fastify/swagger"
import { jsonSchemaTransform, jsonSchemaTransformObject } from "fastify-type-provider-zod"
import type { App } from "./parts.ts"

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
      components: { securitySchemes: { token: { type: "http", scheme: "bearer" } } },
      security: [{ token: [] }],
      tags: [
        { name: "workflows", description: "Definitions, their versions and aliases" },
        { name: "jobs", description: "Submitting, looking, commanding" },
        { name: "tokens", description: "API tokens: who may do what" },
        { name: "providers", description: "External services and their webhooks" },
        { name: "server", description: "What this process says of itself" },
      ],
    },
    transform: jsonSchemaTransform,
    transformObject: document => withDocuments(jsonSchemaTransformObject(document) as Document) as never,
  })
}

interface Document {
  paths?: Record<string, Record<string, { requestBody?: unknown }>>
}

/** Workflows are taken as text, to tell lines and columns; what a caller sends is a JSON or YAML document. */
function withDocuments(document: Document): Document {
  const requestBody = {
    required: true,
    content: {
      "application/json": {
        schema: { type: "object", description: "As schema/workflow.schema.json has it." },
        example: workflowExample,
      },
      "application/yaml": { schema: { type: "string" }, example: yamlExample },
    },
  }
  for (const path of ["/workflows", "/workflows/validate"]) {
    const operation = document.paths?.[path]?.post
    if (operation) operation.requestBody = requestBody
  }
  return document
}
