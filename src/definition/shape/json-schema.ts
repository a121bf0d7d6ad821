import { z } from "zod"
import { pipelineSchema } from "../pipeline/schema.ts"
import { workflowSchema } from "./schema.ts"

/** The JSON Schema for editors: `routes` decides the kind of document, so problems refer to one kind only. */
export function workflowJsonSchema(): Record<string, unknown> {
  const { $schema, ...workflow } = jsonSchemaOf(workflowSchema)
  const { $schema: _, ...pipeline } = jsonSchemaOf(pipelineSchema)
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  return { $schema, title: "Umbra workflow", if: { required: ["routes"] }, then: pipeline, else: workflow }
}

function jsonSchemaOf(schema: z.ZodType): Record<string, unknown> {
  return z.toJSONSchema(schema, { target: "draft-2020-12", io: "input" }) as Record<string, unknown>
}
