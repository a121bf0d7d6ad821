/** Options of a workflow or pipeline as a whole, in a builder. */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { JsonObject } from "../../core/json.ts"
import { inputJsonSchema, type SelfDescribing } from "./input.ts"

export interface Settings {
  readonly description?: string
  /** The job expires (EXPIRED) if it has not ended after this time. */
  readonly ttlSeconds?: number
}

/** Without `inputJsonSchema`, the schema must be able to convert itself to JSON Schema: zod 4.2 or later, arktype. */
export type InputOptions<S extends StandardSchemaV1> =
  | { readonly input: S & SelfDescribing; readonly inputJsonSchema?: never }
  | { readonly input: S; readonly inputJsonSchema: JsonObject }

export function headOf(name: string, options: Settings & Partial<InputOptions<StandardSchemaV1>>) {
  return {
    name,
    ...(options.description !== undefined && { description: options.description }),
    ...(options.input && { input: options.inputJsonSchema ?? inputJsonSchema(name, options.input) }),
    ...(options.ttlSeconds !== undefined && { ttl_seconds: options.ttlSeconds }),
  }
}
