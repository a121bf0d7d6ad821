/** Answers about the facts of a job and their payloads, and the compiled graph that folds them. */
import { z } from "zod"
import { exemplified, int, json, nullableText } from "./job.ts"

const factExample = {
  index: 2,
  seq: 17179869187,
  at: 1794744001250,
  type: "node_completed",
  node: 0,
  attempt: 1,
  worker: "local-4711",
  ran_ms: 12,
  output: {
    $payload: {
      seq: 17179869187,
      field: "output",
      bytes: 52341,
      hash: "5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592",
      preview: '["tea","coffee",',
      count: 4096,
    },
  },
}

const fact = z
  .looseObject({
    index: int.min(1).describe("Its position among the facts of the job, from 1."),
    seq: int.describe("Rises within a job, with gaps."),
    at: z.number().describe("When it was decided, in milliseconds since 1970."),
    type: z.string().describe("A client ignores types that it does not know."),
    node: int.optional().describe("The position of the node in the definition."),
    item: int.optional(),
    attempt: int
      .optional()
      .describe("The fence of the attempt, not the attempt number that is shown to users."),
    worker: z.string().optional(),
    code: z.string().optional().describe("The code of the fault."),
  })
  .meta({ id: "Fact", examples: [factExample] })

export const factPage = z
  .object({
    facts: z.array(fact),
    next: nullableText.describe(
      "The value of `after` for the next page; null: the page is not full, and facts may follow later.",
    ),
  })
  .meta({ examples: [{ facts: [factExample], next: "17179869187.2" }] })

export const payload = json.meta({ examples: [["tea", "coffee"]] })

export const notModified = z.null().describe("The client has this answer already (If-None-Match).")

const retry = z.looseObject({ max_attempts: int })

const compiledExample = {
  name: "order",
  version: 3,
  nodes: [
    {
      id: "price",
      handler: "call_external_service",
      depends_on: [],
      provider: null,
      timeout_seconds: null,
      heartbeat_seconds: null,
      retry: { max_attempts: 3, initial_seconds: 15, max_seconds: 300, multiplier: 2, jitter: 0.1 },
      written_retry: {},
      for_each: false,
      max_parallel: null,
      fail_fast: true,
      resumes: false,
    },
  ],
}

export const compiledGraph = exemplified("CompiledGraph", compiledExample, {
  name: z.string(),
  version: int.nullable().describe("null: the definition is not a stored version."),
  nodes: z.array(
    z.looseObject({
      id: z.string(),
      handler: z.string(),
      depends_on: z.array(z.string()),
      retry,
      written_retry: z
        .record(z.string(), z.number())
        .optional()
        .describe("What the definition sets; the defaults that a job was submitted with override the rest."),
    }),
  ),
})

export const withDefinition = z.enum(["true", "false"]).optional().meta({
  description: "`true`: answer also with the definition, as JSON.",
  example: "true",
})

export const definition = z
  .looseObject({ name: z.string() })
  .describe("With `definition=true`: the definition as it is stored.")

export const jobGraph = compiledGraph
  .extend({ definition: definition.optional() })
  .meta({ id: "JobGraph", examples: [compiledExample] })
