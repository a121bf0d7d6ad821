import { z } from "zod"
import { handlerCatalog, loadWorkflow, type Plan, type Problem } from "../../src/definition/index.ts"

/** The handlers that these tests know. */
export const handlers = handlerCatalog([
  { name: "echo" },
  { name: "output" },
  { name: "external", needsProvider: true },
  { name: "transform", storesConfig: true, config: z.strictObject({ value: z.unknown() }) },
  {
    name: "llm_service",
    config: z.strictObject({
      prompt: z.string().min(3),
      tokens: z.number().int().optional(),
      stop: z.array(z.string()).max(2).optional(),
      target: z.union([z.url(), z.strictObject({ host: z.string(), port: z.number() })]).optional(),
    }),
  },
])

export function problemsOf(text: string): readonly Problem[] {
  return loadWorkflow(text, { handlers }).problems ?? []
}

/** `E105 4:21 nodes[1].dependencies[0]`: what most tests compare. */
export function places(text: string): string[] {
  return problemsOf(text).map(({ code, line, column, path }) => `${code} ${line}:${column} ${path}`.trimEnd())
}

export function planOf(text: string): Plan {
  const { plan, problems } = loadWorkflow(text, { handlers })
  if (plan === undefined)
    throw new Error(problems.map(({ code, message }) => `${code} ${message}`).join("\n"))
  return plan
}
