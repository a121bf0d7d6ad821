/**
 * Checks a declarative provider when it is loaded. Found later, an error would appear with the first job,
 * when the operator may no longer be present.
 */
import type { Json } from "../core/json.ts"
import { UmbraError } from "../errors.ts"
import { compileTemplate, compileValue, insteadOfText } from "../template/index.ts"
import { type HttpProviderDefinition, type HttpProviderSpec, httpProviderSchema } from "./http-spec.ts"
import { hasOpenOrigin } from "./http-url.ts"

/** Throws E605. */
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
