/** Versions of workflows, aliases and differences, in requests and answers. */
import { z } from "zod"
import { eg, int, named, nullableText, paused, time } from "./job.ts"

const weights = z.record(
  z.string().regex(/^[1-9]\d{0,8}$/, "must be a version number"),
  z.number().min(0).max(1e6),
)

export const aliasTarget = z
  .union(
    [
      z.strictObject({
        version: int.min(1).max(2 ** 31 - 1),
      }),
      z.strictObject({
        weights: weights.describe("Weights by version: for A/B tests and gradual rollouts."),
      }),
      weights,
    ],
    { error: 'must be {"version": 3}, or {"weights": {"2": 90, "3": 10}}' },
  )
  .meta({ examples: [{ version: 3 }, { 2: 90, 3: 10 }, { weights: { 2: 90, 3: 10 } }] })

export const alias = named("Alias", {
  alias: eg(z.string(), "stable"),
  weights: eg(weights, { 2: 90, 3: 10 }),
  moved_at: time,
  moved_by: eg(z.string(), "jwt ada"),
})

export const aliasMove = named("AliasMove", {
  at: time,
  by: eg(z.string(), "jwt ada"),
  from: eg(weights.nullable(), { 2: 1 }),
  to: eg(weights.nullable(), { 2: 90, 3: 10 }),
})

export const storedVersion = named("WorkflowVersion", {
  name: eg(z.string(), "order"),
  version: eg(int, 3),
  hash: eg(z.string(), "9f2c41d0"),
  created_at: time,
  pushed_by: eg(
    nullableText,
    "jwt ada",
    'A token ("token ID"), the subject of a JWT ("jwt ada"), or "local". null: not recorded.',
  ),
})

export const workflowPage = z.object({ workflows: z.array(storedVersion), next: nullableText })
export const versionPage = z.object({ versions: z.array(storedVersion), next: z.number().nullable() })

export const workflow = storedVersion
  .extend({
    definition: eg(z.looseObject({}), {
      name: "order",
      nodes: [{ id: "price", handler: "transform", config: { value: 42 } }],
    }),
    aliases: z.array(alias).optional(),
    paused: paused
      .nullable()
      .optional()
      .describe(
        "Since when the workflow is paused, so that its new jobs do not begin; null: it is not paused. Absent for a version.",
      ),
  })
  .meta({ id: "Workflow" })

const names = z.array(eg(z.string(), "invoice"))
const keys = z.array(eg(z.string(), "config"))
export const diff = z.object({
  name: eg(z.string(), "order"),
  from: eg(int, 2),
  to: eg(int, 3),
  nodes_added: names,
  nodes_removed: eg(names, []),
  nodes_changed: z.array(z.object({ id: eg(z.string(), "price"), keys })),
  routes_added: eg(names, []),
  routes_removed: eg(names, []),
  routes_changed: eg(z.array(z.object({ name: z.string(), keys })), []),
  keys_changed: eg(z.array(z.string()), ["output"], "Other keys that differ: input, output, …"),
})
