/** The comparison of two jobs. */
import { z } from "zod"
import { exemplified, flag, int, jobIdExample, nullableText, time } from "./job.ts"

const sums = z.record(z.string(), z.number())

const node = z.object({
  status: z.string(),
  attempts: int.describe("Attempts that have begun."),
  began_ms: z
    .number()
    .nullable()
    .describe("Time from the start of the job until the node was ready to run. null: it was not ready."),
  took_ms: z.number().nullable().describe("null: it has not ended."),
  usage: sums,
  error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
  items: z
    .object({ done: int, total: int })
    .optional()
    .describe("For a list that has not ended: how many of its items have."),
  output: nullableText
    .optional()
    .describe("Hash of the output. null: there is none. Absent: too large to compute."),
})

const side = z.object({
  job_id: z.string(),
  workflow: z.string(),
  workflow_version: int.nullable().describe("null: a changed definition."),
  status: z.string(),
  definition: z.string().describe("Hash of the definition."),
  input: z.string().optional().describe("Hash of the input. Absent: too large to compute."),
  took_ms: z.number(),
  usage: sums,
})

const divergence = z.object({
  kind: z
    .enum(["input", "only_a", "only_b", "definition", "status", "output"])
    .describe(
      "input: the inputs of the jobs differ. only_a, only_b: only one has the node. definition: the node is defined differently. status, output: the node had the same inputs, but a different state or output.",
    ),
  node: nullableText.describe("null: the jobs themselves."),
})

const place = z.object({ seq: int, index: int, at: time })

const hash = "5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592"
const other = "7d793037a0760186574b0282f2f435e77d793037a0760186574b0282f2f435e7"

const sideExample = {
  job_id: jobIdExample,
  workflow: "order",
  workflow_version: 3,
  status: "COMPLETED",
  definition: hash,
  input: hash,
  took_ms: 1250,
  usage: { tokens: 1200 },
}
const nodeExample = {
  ...{ status: "COMPLETED", attempts: 1, began_ms: 0, took_ms: 900 },
  ...{ usage: { tokens: 1200 }, error: null, output: hash },
}
const placeExample = { seq: 17179869187, index: 4, at: "2026-11-15T12:00:01.250Z" }

const comparisonExample = {
  a: sideExample,
  b: { ...sideExample, took_ms: 1400, usage: { tokens: 1300 } },
  ...{ same_definition: true, same_input: true },
  divergence: { kind: "output", node: "price" },
  divergences: [{ kind: "output", node: "price" }],
  delta: { took_ms: 150, usage: { tokens: 100 } },
  nodes: [
    {
      id: "price",
      a: nodeExample,
      b: { ...nodeExample, took_ms: 1000, usage: { tokens: 1300 }, output: other },
      ...{ same_definition: true, same_inputs: true, same_output: false },
      delta: { took_ms: 100, attempts: 0, usage: { tokens: 100 } },
      divergence: "output",
    },
  ],
  complete: true,
  moments: { a: placeExample, b: placeExample },
  diffs: [
    {
      node: "price",
      changes: [{ path: "$.total", kind: "changed", a: "42", b: "43" }],
      complete: true,
    },
  ],
}

export const comparison = exemplified("JobComparison", comparisonExample, {
  a: side,
  b: side,
  same_definition: z.boolean(),
  same_input: z.boolean().nullable().describe("null: not compared, too large."),
  input_by_hash: flag.describe("As `by_hash` of a node."),
  divergence: divergence.nullable().describe("The first in topological order; null: there is none."),
  divergences: z.array(divergence).describe("At most 100; the first is `divergence`."),
  delta: z.object({ took_ms: z.number().nullable(), usage: sums }).describe("b minus a."),
  nodes: z.array(
    z.object({
      id: z.string(),
      a: node.nullable(),
      b: node.nullable(),
      same_definition: z.boolean(),
      same_inputs: z
        .boolean()
        .nullable()
        .describe("null: the inputs of the jobs, or outputs that it may read, were not compared."),
      same_output: z.boolean().nullable().describe("null: not compared, too large."),
      by_hash: flag.describe(
        "The outputs differ as texts, perhaps only in the order of keys: too large to compare by value.",
      ),
      delta: z
        .object({ took_ms: z.number().nullable(), attempts: int, usage: sums })
        .nullable()
        .describe("b minus a."),
      divergence: nullableText,
    }),
  ),
  complete: z
    .boolean()
    .describe("false: the inputs of the jobs, or some outputs, were not compared, beyond the bounds."),
  moments: z.object({ a: place, b: place }).describe("The last facts that were compared."),
  diffs: z
    .array(
      z.object({
        node: z.string(),
        changes: z
          .array(
            z.object({
              path: z.string(),
              kind: z.enum(["added", "removed", "changed"]),
              a: z.string().optional(),
              b: z.string().optional(),
            }),
          )
          .optional()
          .describe("At most 1,000. Values are JSON text, at most 200 characters of it."),
        complete: z.boolean().optional(),
        not_compared: z.enum(["missing", "too_large"]).optional(),
      }),
    )
    .optional()
    .describe("One for each `diff` of the request."),
})
