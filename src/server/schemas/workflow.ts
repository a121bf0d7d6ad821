/** Versions of workflows, aliases and differences, in requests and answers. */
import { z } from "zod"
import { time } from "./job.ts"

const weights = z.record(
  z.string().regex(/^[1-9]\d{0,8}$/, "must be a version number"),
  z.number().min(0).max(1e6),
)

export const aliasTarget = z
  .union(
    [
      z.strictObject({
        version: z
          .number()
          .int()
          .min(1)
          .max(2 ** 31 - 1),
      }),
      z.strictObject({
        weights: weights.describe("Weights by version: for A/B tests and gradual rollouts."),
      }),
      weights,
    ],
    { error: 'must be {"version": 3}, or {"weights": {"2": 90, "3": 10}}' },
  )
  .meta({ examples: [{ version: 3 }, { 2: 90, 3: 10 }, { weights: { 2: 90, 3: 10 } }] })

export const alias = z.object({ alias: z.string(), weights, moved_at: time, moved_by: z.string() }).meta({
  id: "Alias",
  examples: [
    { alias: "stable", weights: { 2: 90, 3: 10 }, moved_at: "2026-11-15T12:00:00.000Z", moved_by: "jwt ada" },
  ],
})

export const aliasMove = z
  .object({ at: time, by: z.string(), from: weights.nullable(), to: weights.nullable() })
  .meta({
    id: "AliasMove",
    examples: [{ at: "2026-11-15T12:00:00.000Z", by: "jwt ada", from: { 2: 1 }, to: { 2: 90, 3: 10 } }],
  })

const versionExample = {
  name: "order",
  version: 3,
  hash: "9f2c41d0",
  created_at: "2026-11-15T12:00:00.000Z",
  pushed_by: "jwt ada",
}

export const storedVersion = z
  .object({
    name: z.string(),
    version: z.number().int(),
    hash: z.string(),
    created_at: time,
    pushed_by: z
      .string()
      .nullable()
      .describe('A token ("token ID"), the subject of a JWT ("jwt ada"), or "local". null: not recorded.'),
  })
  .meta({
    id: "WorkflowVersion",
    examples: [versionExample],
  })

export const workflow = storedVersion
  .extend({ definition: z.looseObject({}), aliases: z.array(alias).optional() })
  .meta({
    id: "Workflow",
    examples: [
      {
        ...versionExample,
        definition: { name: "order", nodes: [{ id: "price", handler: "transform", config: { value: 42 } }] },
      },
    ],
  })

const diffExample = {
  name: "order",
  from: 2,
  to: 3,
  nodes_added: ["invoice"],
  nodes_removed: [],
  nodes_changed: [{ id: "price", keys: ["config"] }],
  routes_added: [],
  routes_removed: [],
  routes_changed: [],
  keys_changed: ["output"],
}

export const diff = z
  .object({
    name: z.string(),
    from: z.number().int(),
    to: z.number().int(),
    nodes_added: z.array(z.string()),
    nodes_removed: z.array(z.string()),
    nodes_changed: z.array(z.object({ id: z.string(), keys: z.array(z.string()) })),
    routes_added: z.array(z.string()),
    routes_removed: z.array(z.string()),
    routes_changed: z.array(z.object({ name: z.string(), keys: z.array(z.string()) })),
    keys_changed: z.array(z.string()).describe("Other keys that differ: input, output, …"),
  })
  .meta({ examples: [diffExample] })
