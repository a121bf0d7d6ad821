import { z } from "zod"
import {
  adapterCatalog,
  handlerCatalog,
  loadWorkflow,
  type Plan,
  type Problem,
} from "../../../src/definition/index.ts"
import type { PipelinePlan } from "../../../src/definition/pipeline/plan.ts"

/** The adapters that these tests know. */
export const adapters = adapterCatalog([
  { type: "echo" },
  { type: "http_fetch", config: z.strictObject({ url: z.string(), timeout: z.number().optional() }) },
  { type: "transform", storesConfig: true },
  { type: "pdf_text", package: "umbra-pdf", config: z.strictObject({ pages: z.number() }) },
])

export const catalogs = { handlers: handlerCatalog([{ name: "echo" }]), adapters }

export function problemsOf(text: string): readonly Problem[] {
  return loadWorkflow(text, catalogs).problems ?? []
}

/** `E104 4:21 routes[1].name`: what most tests compare. */
export function places(text: string): string[] {
  return problemsOf(text).map(({ code, line, column, path }) => `${code} ${line}:${column} ${path}`.trimEnd())
}

export function planOf(text: string): Plan & { readonly pipeline: PipelinePlan } {
  const { plan, problems } = loadWorkflow(text, catalogs)
  if (plan === undefined)
    throw new Error(problems.map(({ code, message }) => `${code} ${message}`).join("\n"))
  if (plan.pipeline === null) throw new Error("not a pipeline")
  return plan as Plan & { readonly pipeline: PipelinePlan }
}
