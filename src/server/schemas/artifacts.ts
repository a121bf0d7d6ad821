/** Artifacts: files and other large content. */
import { z } from "zod"
import * as schema from "./job.ts"

const MOST = 1000

const example = {
  artifact: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
  name: "a.txt",
  type: "text/plain",
  bytes: 4,
}

export const hash = z
  .string()
  .regex(/^sha256:[0-9a-f]{64}$/, 'must be "sha256:" and 64 hex digits')
  .meta({ example: example.artifact })

const parts = {
  artifact: hash.describe("The hash of the content."),
  name: z.string(),
  type: z.string().describe("A media type."),
  bytes: schema.count,
}

export const reference = z
  .object(parts)
  .meta({ id: "ArtifactReference", examples: [example] })
  .describe("To be used in inputs, outputs and signals.")

const time = "2026-11-15T12:00:00.000Z"
const artifactExample = { ...example, created_at: time, last_put_at: time, removed_at: null }

const artifact = schema.exemplified("Artifact", artifactExample, {
  ...parts,
  created_at: schema.time,
  last_put_at: schema.time,
  removed_at: schema.time
    .nullable()
    .describe("When its content was removed by force; null: it has its content."),
})

export const page = z
  .object({
    artifacts: z.array(artifact),
    next: schema.nullableText.describe("The value of `after` for the next page; null: there are no more."),
  })
  .meta({ examples: [{ artifacts: [artifactExample], next: null }] })

export const pageQuery = z.strictObject({
  after: hash.optional().meta({ description: "`next` of the page before.", example: example.artifact }),
  limit: schema.queryInt(1, MOST).default(100).meta({ example: 100 }),
})

const fileName = z.string().min(1).max(200)

export const uploadQuery = z.strictObject({
  name: fileName.default("artifact").meta({ description: "The name of the artifact.", example: "a.txt" }),
})

export const contentQuery = z.strictObject({
  name: fileName
    .optional()
    .meta({ description: "The file name in the answer; default: that of the artifact.", example: "a.txt" }),
  redirect: z.enum(["true", "false"]).default("false").meta({
    description:
      "Answers 302 with a URL of the bucket, valid for 5 minutes. Content in a folder is sent as usual.",
    example: "true",
  }),
})

export const removalQuery = z.strictObject({
  force: z.enum(["true", "false"]).default("false").meta({
    description: "Remove it even if it is referenced; reading it then fails with E803.",
    example: "true",
  }),
})

const count = z.object({ count: schema.int, bytes: schema.int })
const countExample = { count: 2, bytes: 8 }

export const sweepQuery = z.strictObject({
  dry_run: z.enum(["true", "false"]).default("false").meta({ description: "Only counts.", example: "true" }),
})

export const sweepReport = z
  .object({
    removed: count.describe("Content that an earlier sweep had marked."),
    marked: count.describe("Artifacts that nothing refers to: the next sweep removes them."),
    orphans: count.describe("Content that belongs to no artifact."),
  })
  .meta({ examples: [{ removed: countExample, marked: countExample, orphans: countExample }] })

const bytes = (description: string) =>
  ({
    description,
    content: { "application/octet-stream": { schema: z.string().meta({ examples: ["…"] }) } },
  }) as unknown as z.ZodType

export const content = {
  200: bytes("The content, with its media type"),
  206: bytes("The requested range"),
  302: z.null().describe("The content is at `Location`"),
  304: z.null().describe("The client already has this content"),
}
