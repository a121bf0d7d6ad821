/** Requests and previews of forks. */
import { z } from "zod"
import {
  count,
  eg,
  exemplified,
  int,
  jobIdExample,
  json,
  named,
  nullableText,
  workflowReference,
} from "./job.ts"

const nodeId = z.string().min(1).max(300)
const nodeIds = z.array(nodeId).max(100_000)
const byNode = <S extends z.ZodType>(value: S) => z.record(nodeId, value)

/** What forks of one job and of many have in common. */
const common = {
  from: nodeIds
    .optional()
    .describe("Nodes that run again, with all that depends on them. Default: what did not complete."),
  workflow: z
    .union([workflowReference, z.looseObject({ name: z.string(), nodes: z.array(z.unknown()) })])
    .optional()
    .describe(
      "Another version of the same workflow, `name@3`; or a changed definition, as JSON, which is stored with this job and not as a version. Default: what the origin runs.",
    ),
  overrides: byNode(
    z
      .strictObject({ output: json.optional(), config: z.record(z.string(), z.unknown()).optional() })
      .refine(override => Object.keys(override).length === 1, "must have either output or config"),
  )
    .optional()
    .describe("By node: its `output`, which is set without running the node; or another `config`."),
  confirm: z
    .strictObject({
      unsafe: nodeIds.optional().describe("Nodes whose effects are unsafe to repeat, each by its id."),
      unknown: z.boolean().optional().describe("All nodes whose handlers do not declare their effects."),
    })
    .optional()
    .describe("Which effects outside of Umbra may happen once more."),
}

export const bulkFork = z.strictObject(common).meta({
  id: "BulkFork",
  description:
    "For fork: how each job is forked. A job that would repeat effects that `confirm` does not contain is refused.",
})

export const forkRequest = z
  .strictObject({
    ...common,
    input: json.optional().describe("Default: the input of the origin."),
    items: byNode(z.array(count).min(1).max(1_000_000))
      .optional()
      .describe("By node with for_each: the items that run again, from 0; its other items do not."),
    reuse: nodeIds.optional().describe("Nodes whose results are taken over although the input has changed."),
    dry_run: z.boolean().optional().describe("Answer what the fork would do, and do nothing."),
  })
  .meta({ examples: [{ from: ["charge"], confirm: { unsafe: ["charge"] } }] })

const quantiles = z.object({ p50: z.number(), p90: z.number() }).nullable()
const usage = z
  .record(
    z.string(),
    z.object({
      mean: z.number(),
      p50: z.number().nullable().describe("null: no data."),
      p90: z.number().nullable(),
    }),
  )
  .nullable()

const forkedNode = named("ForkedNode", {
  node: z.string(),
  reason: z.looseObject({
    code: z.enum([
      ...([
        "unchanged",
        "kept",
        "pinned",
        "requested",
        "not_completed",
        "new",
        "handler_reads_input",
      ] as const),
      ...(["changed", "dependency", "input_changed", "items_not_completed", "items_requested"] as const),
    ]),
  }),
  because: z.string().describe("The reason in a few words."),
  items: z
    .object({ reused: int, run: int })
    .optional()
    .describe(
      "For a node with for_each whose list is known: how many items are taken over, and how many run.",
    ),
  effects: z.enum(["safe", "unsafe", "unknown"]).optional().describe("For a node that runs."),
  duration_ms: quantiles
    .optional()
    .describe("For a node that runs: what its runs usually take. null: no data."),
  usage: usage.optional().describe("For a node that runs: what its runs usually use. null: no data."),
})

const ids = z.array(z.string())

const example = {
  job_id: jobIdExample,
  workflow: "order",
  workflow_version: 3,
  definition: null,
  reused: [{ node: "price", reason: { code: "unchanged" }, because: "nothing it depends on has changed" }],
  will_run: [
    {
      node: "charge",
      reason: { code: "requested" },
      because: "the request runs it again",
      effects: "unsafe",
      duration_ms: null,
      usage: null,
    },
  ],
  pinned: [],
  new: [],
  removed: [],
  expected: { duration_ms: null, usage: null, critical_path: ["charge"], without_data: ["charge"] },
  effects: { safe: [], unsafe: ["charge"], unknown: [] },
  unconfirmed: { unsafe: ["charge"], unknown: [] },
}

export const forkPreview = exemplified("ForkPreview", example, {
  job_id: eg(z.string(), jobIdExample, "The origin."),
  workflow: z.string(),
  workflow_version: int.nullable().describe("null: a changed definition."),
  definition: nullableText.describe("The hash of the changed definition; null: the fork runs a version."),
  reused: z.array(forkedNode),
  will_run: z.array(forkedNode),
  pinned: z.array(forkedNode).describe("Nodes whose output the request sets."),
  new: z.array(forkedNode).describe("Nodes that the origin does not have: they run too."),
  removed: ids.describe("Nodes of the origin that the fork does not have."),
  expected: z
    .object({
      duration_ms: quantiles.describe("Along the critical path. null: no data."),
      usage: usage.describe(
        "The sums of the nodes that run and have data. A percentile is null if one of these nodes has none.",
      ),
      critical_path: ids.describe("Nodes that run one after another and take the longest."),
      without_data: ids.describe("Nodes that run and have no statistics."),
    })
    .describe("From the statistics of the workflow."),
  effects: z
    .object({ safe: ids, unsafe: ids, unknown: ids })
    .describe("The nodes that run, by what a repetition does outside of Umbra."),
  unconfirmed: z
    .object({ unsafe: ids, unknown: ids })
    .describe("What `confirm` must still contain before the fork is accepted."),
})
