/** Options of a workflow or pipeline as a whole, in a builder. */
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "@standard-schema/spec"
import type { JsonObject } from "../../core/json.ts"
import { UmbraError } from "../../errors.ts"
import { expression, member } from "./expression.ts"
import type { Ref } from "./flow.ts"
import { refTo } from "./ref.ts"

export interface Settings {
  readonly description?: string
  /** The job expires (EXPIRED) if it has not ended after this time. */
  readonly ttlSeconds?: number
}

/** Without `inputJsonSchema`, the schema must be able to convert itself to JSON Schema: zod 4.2 or later, arktype. */
export type InputOptions<S extends StandardSchemaV1> =
  | { readonly input: S & SelfDescribing; readonly inputJsonSchema?: never }
  | { readonly input: S; readonly inputJsonSchema: JsonObject }

export function buildHead(name: string, options: Settings & Partial<InputOptions<StandardSchemaV1>>) {
  return {
    name,
    ...(options.description !== undefined && { description: options.description }),
    ...(options.input && { input: options.inputJsonSchema ?? inputJsonSchema(name, options.input) }),
    ...(options.ttlSeconds !== undefined && { ttl_seconds: options.ttlSeconds }),
  }
}

/** A schema that can convert itself to JSON Schema (zod 4.2 or later, arktype, …). */
type SelfDescribing = StandardSchemaV1 & StandardJSONSchemaV1

/**
 * The JSON Schema of a workflow's input, from the schema of its author. The engine checks a job's input against JSON Schema
 * and fills in defaults; it never runs the author's code. So a schema with rules that JSON Schema cannot express is
 * rejected: otherwise they would be ignored silently.
 */
function inputJsonSchema(workflow: string, schema: StandardSchemaV1): JsonObject {
  const standard = schema["~standard"] as StandardSchemaV1.Props & Partial<StandardJSONSchemaV1.Props>
  if (!standard.jsonSchema) {
    throw refusal(workflow, `its library (${standard.vendor}) cannot produce JSON Schema.`)
  }
  // Each library reads only its own options.
  const libraryOptions = standard.vendor === "zod" ? { override: refuseInexpressible(workflow) } : undefined
  const { $schema: _, ...content } = standard.jsonSchema.input({ target: "draft-2020-12", libraryOptions })
  return content as JsonObject
}

interface ZodVisit {
  readonly zodSchema: {
    readonly _zod: {
      readonly def: { readonly type: string; readonly coerce?: boolean; readonly checks?: readonly Check[] }
    }
  }
  readonly path: readonly (string | number)[]
}
interface Check {
  readonly _zod: { readonly def: { readonly check: string } }
}

const inexpressible: Readonly<Record<string, string>> = {
  pipe: "transforms or pipes",
  transform: "transforms",
  overwrite: "changes its value (trim, toLowerCase, …)",
  custom: "checks with custom code (refine, superRefine)",
}

function refuseInexpressible(workflow: string): (visit: ZodVisit) => void {
  return ({ zodSchema, path }) => {
    const { type, coerce, checks = [] } = zodSchema._zod.def
    const reason =
      inexpressible[type] ??
      (coerce ? "coerces" : undefined) ??
      checks.map(check => inexpressible[check._zod.def.check]).find(found => found !== undefined)
    if (reason !== undefined) {
      const place = path.filter(step => step !== "properties").join(".") || "the schema itself"
      throw refusal(workflow, `${place} ${reason}, which JSON Schema cannot express.`)
    }
  }
}

function refusal(workflow: string, why: string): UmbraError {
  return new UmbraError(
    "E101",
    `the input of workflow ${JSON.stringify(workflow)} cannot be expressed as JSON Schema: ${why} ` +
      "Simplify the schema, or pass a JSON Schema as inputJsonSchema.",
  )
}

/** Rejects two different things with the same name: one of them would silently replace the other. */
export function useOnce<T>(
  known: Map<string, T>,
  used: { readonly name: string; readonly thing: T; readonly what: string; readonly owner: string },
): void {
  const { name, thing, what, owner } = used
  const first = known.get(name)
  if (first !== undefined && first !== thing)
    throw new UmbraError(
      "E103",
      `${owner} uses two different ${what}s called ${JSON.stringify(name)}. Rename one of them.`,
    )
  known.set(name, thing)
}

/** The fields of the job that a template can read. */
export interface JobInfo {
  readonly id: string
  readonly workflow: string
  readonly workflow_version: number
  readonly owner: string
  readonly created_at: string
}

/** What every builder can read. */
export class JobRefs {
  protected readonly origins: ReadonlySet<object> = new Set([this])
  readonly job: Ref<JobInfo> = refTo(expression("job", this.origins, true))

  /** A secret by its name: filled in just before the call, never stored. Only for the config of a handler or adapter. */
  secret(name: string): Ref<string> {
    return refTo(member(expression("secrets", this.origins, true), name))
  }
}
