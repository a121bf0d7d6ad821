/** What a builder says of a workflow or pipeline as a whole. */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { JsonObject } from "../../core/json.ts"
import { inputJsonSchema, type SelfDescribing } from "./input.ts"

export interface Settings {
  readonly description?: string
  /** A job that is not done by then becomes EXPIRED. */
  readonly ttlSeconds?: number
}

/** Without `inputJsonSchema` the schema must be one that can write itself as JSON Schema: zod 4.2 or later, arktype. */
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
