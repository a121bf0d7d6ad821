/** A plain REST provider as data: the schema of a providers file in YAML. */
import { z } from "zod"
import type { Json } from "../core/json.ts"
import { UmbraError } from "../errors.ts"
import { compileTemplate, compileValue, insteadOfText } from "../template/index.ts"

const template = z.string().min(1)
/** An expression whose value is compared or counted: white space around it would make it text. */
const expression = z.string().trim().min(1)
const seconds = z.number().positive()
const scalar = z.union([z.string(), z.number(), z.boolean()])

const request = (method: "GET" | "POST" | "DELETE") =>
  z.strictObject({
    method: z.enum(["GET", "POST", "PUT", "PATCH", "DELETE"]).default(method),
    url: template.describe("The URL; may contain templates."),
    headers: z.record(z.string(), scalar).optional(),
    query: z.record(z.string(), scalar).optional(),
    json: z.unknown().optional().describe("A body of any shape, sent as application/json."),
  })

/** How an answer, or a webhook, tells the state of an operation. */
const outcome = {
  status: expression.describe("The state of the operation, for example `{{ body.status }}`."),
  done: z.array(scalar).min(1).describe("Values of `status` that mean done."),
  failed: z.array(scalar).default([]).describe("Values that mean failed. All others: it is still running."),
  output: z.unknown().default("{{ body }}").describe("The node's output once it is done."),
  error: template.optional().describe("Why it failed."),
  retryable: z.union([z.boolean(), expression]).default(true).describe("May a new operation succeed?"),
  progress: expression.optional().describe("0 to 100, while it runs."),
  message: template.optional().describe("What to show while it runs."),
  preview: z.unknown().optional().describe("Partial results, while it runs."),
}

const encoding = z.enum(["hex", "base64", "base64url"]).default("hex")
const secrets = z.array(z.string().min(1)).min(1).describe("Names of secrets; several while one is replaced.")

const signature = z.discriminatedUnion("scheme", [
  z.strictObject({
    scheme: z.literal("hmac-sha256"),
    header: z.string().min(1),
    prefix: z.string().default(""),
    encoding,
    timestamp_header: z.string().optional(),
    secrets,
  }),
  z.strictObject({ scheme: z.literal("standard-webhooks"), secrets }),
  z.strictObject({
    scheme: z.literal("ed25519"),
    header: z.string().min(1),
    encoding,
    timestamp_header: z.string().optional(),
    separator: z.string().default("."),
    public_keys: z.array(z.string().min(1)).min(1),
  }),
])

const httpProviderSchema = z.strictObject({
  name: z.string(),
  concurrency: z.int().min(1).nullable().optional(),
  rate: seconds.nullable().optional(),
  owners: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe("The owners whose jobs may use it; default: all owners."),
  concurrency_per_owner: z.int().min(1).nullable().optional().describe("Slots that one owner may hold."),
  rate_per_owner: seconds.nullable().optional().describe("Requests per second for one owner."),
  origins: z
    .array(z.url({ protocol: /^https?$/ }))
    .optional()
    .describe("Origins to which `call_external_service` may submit, besides those of the URLs below."),
  account: z
    .string()
    .min(1)
    .optional()
    .describe("The account at the service; definitions with the same one share their operations."),
  poll_seconds: z.array(seconds).min(1).optional(),
  poll_jitter: z.number().min(0).max(1).optional(),
  max_poll_errors: z.int().min(0).nullable().optional(),
  ttl_seconds: seconds.nullable().optional(),
  timeout_seconds: seconds
    .max(86_400)
    .default(30)
    .describe("The timeout of one request, including the body."),
  max_response_bytes: z
    .int()
    .min(1)
    .max(16 * 1024 * 1024)
    .default(10 * 1024 * 1024),
  store: z
    .boolean()
    .default(false)
    .describe("Stores what URLs in results and previews point to, as artifacts; a webhook is then a hint."),
  honours_keys: z
    .boolean()
    .default(false)
    .describe("A submission that is repeated with the same idempotency key begins no second operation."),
  submit: request("POST")
    .extend({
      external_id: template.describe("The operation's id in the answer: `{{ body.id }}`."),
      idempotency_header: z.string().min(1).default("idempotency-key"),
    })
    .optional(),
  poll: request("GET").extend(outcome).optional(),
  cancel: request("DELETE").optional(),
  webhook: z
    .strictObject({
      ...outcome,
      status: outcome.status.optional(),
      done: outcome.done.optional(),
      external_id: template,
      event_id: template.optional(),
      is_hint: z.boolean().default(false),
      signature,
    })
    .refine(({ is_hint, status, done }) => is_hint || (status !== undefined && done !== undefined), {
      message: "Give status and done, or is_hint: true",
    })
    .optional(),
})

export type HttpProviderDefinition = z.input<typeof httpProviderSchema>
export type HttpProviderSpec = z.output<typeof httpProviderSchema>
export type RequestSpec = z.output<ReturnType<typeof request>>
export type SignatureSpec = z.output<typeof signature>

/**
 * Checks a declarative provider when it is loaded. Found later, an error would appear with the first job,
 * when the operator may no longer be present. Throws E605.
 */
export function checkedSpec(definition: HttpProviderDefinition): HttpProviderSpec {
  const { success, data, error } = httpProviderSchema.safeParse(definition)
  const name = JSON.stringify((definition as { name?: unknown } | null)?.name ?? "?")
  if (!success) {
    const problems = error.issues.map(({ path, message }) => `${path.join(".") || "provider"}: ${message}`)
    throw new UmbraError("E605", `Provider ${name} is invalid. ${problems.join("; ")}.`)
  }
  const problem =
    syntaxProblem(data) ??
    nameProblem(data) ??
    textProblem(data) ??
    originProblem(data) ??
    endlessProblem(data)
  if (problem === undefined) return data
  throw new UmbraError("E605", `Provider ${name}: ${problem}`)
}

function syntaxProblem(spec: HttpProviderSpec): string | undefined {
  const [problem] = compileValue(spec as unknown as Json).problems
  return problem && `the template at ${problem.path.join(".")} does not parse. ${problem.error.message}`
}

type Part = "submit" | "poll" | "cancel" | "webhook"

const requestKeys = ["url", "headers", "query", "json"]
const answered = ["response", "body"]
const operation = ["external_id", "job_id", "node_id"]
const submission = ["config", "key", "job_id", "node_id"]
const names: Record<Part, Record<"request" | "answer", readonly string[]>> = {
  submit: { request: [...submission, "secrets"], answer: [...submission, ...answered] },
  poll: { request: [...operation, "secrets"], answer: [...operation, ...answered] },
  cancel: { request: [...operation, "secrets"], answer: [] },
  webhook: { request: [], answer: ["body", "headers"] },
}

function nameProblem(spec: HttpProviderSpec): string | undefined {
  for (const part of ["submit", "poll", "cancel", "webhook"] as const) {
    const { templates } = compileValue((spec[part] ?? null) as unknown as Json).value
    for (const { path, template } of templates) {
      const known = names[part][requestKeys.includes(String(path[0])) ? "request" : "answer"]
      const unknown = template.references.find(({ name }) => !known.includes(name))
      if (unknown === undefined) continue
      const place = [part, ...path].join(".")
      return `the template at ${place} reads "${unknown.name}", which does not exist. Available: ${known.join(", ")}.`
    }
  }
  return undefined
}

/**
 * A value that is compared with a number or boolean, or is one, must come from an expression that can yield
 * one.
 */
function textProblem(spec: HttpProviderSpec): string | undefined {
  for (const part of ["poll", "webhook"] as const) {
    const { status, done = [], failed = [], retryable, progress } = spec[part] ?? {}
    const problem = (key: string, source: unknown, yields: string) => {
      if (typeof source !== "string") return undefined
      const template = compileTemplate(source)
      return template.yieldsText
        ? `${part}.${key} yields text. ${insteadOfText(template, yields)}`
        : undefined
    }
    const other = [...done, ...failed].find(value => typeof value !== "string")
    const found =
      problem("retryable", retryable, "true or false") ??
      problem("progress", progress, "a number") ??
      (other === undefined ? undefined : problem("status", status, `values such as ${other}`))
    if (found !== undefined) return found
  }
  return undefined
}

/** With credentials, the author of a workflow must not decide where they are sent. */
function originProblem(spec: HttpProviderSpec): string | undefined {
  const part = (["submit", "poll", "cancel"] as const).find(name => {
    const request = spec[name]
    return request !== undefined && hasOpenOrigin(request) && readsSecrets(request)
  })
  return part && `${part} reads secrets, so the host of ${part}.url must be a constant, or a secret itself.`
}

function readsSecrets(request: object): boolean {
  const { templates } = compileValue(request as Json).value
  return templates.some(({ template }) => template.references.some(({ name }) => name === "secrets"))
}

function endlessProblem({ submit, poll, webhook }: HttpProviderSpec): string | undefined {
  if (submit === undefined || poll !== undefined || webhook !== undefined) return undefined
  return "there is no way to detect the end of an operation. Give poll, webhook, or better both."
}

/** The part of a URL template that decides where a request goes, with plain secrets treated as text. */
function authority(template: string): string {
  const text = template.replaceAll(/\{\{-?\s*secrets\s*[.[][^{}|]*\}\}/g, "secret")
  return /^(?:[a-z]+:\/\/)?[^/?#]*/i.exec(text)![0]
}

/** Can a job's data decide where the request goes? */
function hasOpenOrigin({ url }: RequestSpec): boolean {
  return /\{[{%]/.test(authority(url))
}
