/** Converts the answer or webhook of a REST provider to the state of an operation. */
import type { Json } from "../core/json.ts"
import { compileValue, type Encode, type Scope } from "../template/index.ts"
import type { OperationNews } from "./provider.ts"

export interface OutcomeSpec {
  readonly status?: string | undefined
  readonly done?: readonly (string | number | boolean)[] | undefined
  readonly failed: readonly (string | number | boolean)[]
  readonly output?: unknown
  readonly error?: string | undefined
  readonly retryable: boolean | string
  readonly progress?: string | undefined
  readonly message?: string | undefined
  readonly preview?: unknown
}

export function parseOutcome(spec: OutcomeSpec, names: { readonly [name: string]: Json }): OperationNews {
  const status = render(spec.status ?? "", names) as string | number | boolean
  if (spec.done?.includes(status)) return { status: "completed", output: render(spec.output ?? null, names) }
  if (spec.failed.includes(status)) return failedNews(spec, names, status)
  const progress = attempt(spec.progress, names)
  const message = attempt(spec.message, names)
  const preview = attempt(spec.preview, names)
  return {
    status: "running",
    progress: typeof progress === "number" ? progress : undefined,
    message: typeof message === "string" ? message : undefined,
    preview: preview ?? undefined,
  }
}

function failedNews(
  spec: OutcomeSpec,
  names: { readonly [name: string]: Json },
  status: Json,
): OperationNews {
  const error = attempt(spec.error, names)
  const why = typeof error === "string" ? error : error === null ? String(status) : JSON.stringify(error)
  const retryable = attempt(spec.retryable, names)
  const message = `The provider says: ${why}`
  if (typeof retryable !== "string") return { status: "failed", message, retryable: retryable !== false }
  const told =
    "`retryable` of its definition yields text, which is not a condition, so the operation is not retried."
  return { status: "failed", message: `${message} (${told})`, retryable: false }
}

/** Values that are only displayed may be missing. */
function attempt(source: unknown, names: { readonly [name: string]: Json }): Json {
  if (source === undefined) return null
  try {
    return render(source, names)
  } catch {
    return null
  }
}

export function render(
  source: unknown,
  names: { readonly [name: string]: Json },
  options?: { readonly encode: Encode },
): Json {
  return compileValue(source as Json).value.render(createScope(names), options)
}

function createScope(names: { readonly [name: string]: Json }): Scope {
  return { names, node: () => undefined, nodeIds: () => [] }
}
