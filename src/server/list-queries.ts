/** The parameters of `GET /jobs` and `GET /jobs/{job}/events`. */
import { z } from "zod"
import { type JobStatus, jobStatuses } from "../core/states.ts"
import { isJobId } from "../engine/ids.ts"
import { UmbraError } from "../errors.ts"
import { readFilter, type ShownFilter } from "../jobs/bulk/operation.ts"
import type { EventPageQuery } from "../jobs/event-page.ts"
import { searchedWords } from "../journal/fingerprint.ts"
import type { DurationsQuery } from "../journal/job-durations.ts"
import type { JobFilter } from "../journal/port/journal.ts"
import * as schema from "./schemas/job.ts"

const texts = z.union([z.string(), z.array(z.string()).max(20)])

export const listQuery = z.strictObject({
  status: texts
    .optional()
    .meta({ description: "One or several, separated by commas.", example: "FAILED,EXPIRED" }),
  workflow: schema.ofWorkflow,
  version: schema
    .queryInt(1, 2 ** 31 - 1)
    .optional()
    .meta({ description: "A version of `workflow`, which must be given too.", example: 3 }),
  label: texts.optional().meta({ description: "NAME=VALUE; may be repeated.", example: "team=shop" }),
  parent: z.string().optional().meta({
    description: "A job's id: only its child jobs. `none`: only jobs without a parent.",
    example: "none",
  }),
  forked_from: z
    .string()
    .optional()
    .meta({ description: "A job's id: only its forks.", example: schema.jobIdExample }),
  error_code: z.string().min(1).max(200).optional().meta({ example: "E405" }),
  fingerprint: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .meta({ description: "`fingerprint` of another job with the same error.", example: "5d41402abc4b2a76" }),
  error_text: z.string().max(1000).optional().meta({
    description: "Words of the error's message, all of them. Numbers, ids and quoted texts are not searched.",
    example: "connection refused",
  }),
  min_duration: z.coerce
    .number()
    .min(0)
    .max(1e10)
    .optional()
    .meta({ description: "Jobs that have ended and took at least this many seconds.", example: 60 }),
  created_from: schema.moment.optional(),
  created_before: schema.moment.optional(),
  deleted: z.enum(["true", "false"]).optional().describe("Show deleted jobs too."),
  after: schema.afterJob,
  limit: schema.limit,
})

export const durationsQuery = listQuery.omit({ after: true, limit: true }).extend({
  points: schema.queryInt(20, 2000).default(500).meta({ example: 500 }),
})

export const durations = z.object({
  from: schema.time,
  before: schema.time,
  points: z.array(
    z.object({
      at: schema.time.describe("When the job was created."),
      duration_ms: schema.eg(schema.int, 1250, "For a job that has not ended: until now."),
      status: schema.jobStatus,
      count: schema.eg(schema.int, 3, "The number of jobs near this time and duration."),
      job_id: schema.eg(
        z.string(),
        schema.jobIdExample,
        "The slowest of them, whose time and duration these are.",
      ),
    }),
  ),
  jobs: schema.eg(schema.int, 4200, "The number of jobs that were read."),
  complete: z.boolean().describe("false: the range has more jobs; the points are a sample of all of it."),
})

export function parseDurations(query: z.infer<typeof durationsQuery>): DurationsQuery {
  const { points, ...filters } = query
  const { limit: _, after: _after, ...filter } = parseJobFilter({ ...filters, limit: 1 })
  const { createdFrom = Number.NEGATIVE_INFINITY, createdBefore = Number.POSITIVE_INFINITY } = filter
  if (createdFrom >= createdBefore) throw wrong("created_from", "must be before created_before")
  return { ...filter, points }
}

export const jobPage = z.object({
  jobs: z.array(schema.job),
  next: schema.jobId.nullable().describe("`after` of the next page; null: this is the last."),
  scanned_to: schema.nullableText.describe("How far back the page has searched; null: to the end."),
  complete: z.boolean().describe("false: the page ended before it was full, after a bounded search."),
})

export function parseJobFilter(query: z.infer<typeof listQuery>): JobFilter {
  const { status, label, deleted, after, limit, ...shown } = query
  const { workflow, version, error_code, fingerprint, error_text, forked_from, parent } = shown
  if (version !== undefined && workflow === undefined) throw wrong("version", "needs the parameter workflow")
  if (error_text !== undefined && searchedWords(error_text).length === 0)
    throw wrong("error_text", "must contain a word of at least two letters")
  if ([error_code, fingerprint, error_text].some(text => text?.includes("\u0000")))
    throw wrong("error_code", "must not contain the character U+0000")
  if (forked_from !== undefined && !isJobId(forked_from)) throw wrong("forked_from", "must be a job's id")
  if (after !== undefined && !isJobId(after)) throw wrong("after", "must be `next` of the previous page")
  const statuses = status === undefined ? undefined : [status].flat().flatMap(parseStatuses)
  const labels = label === undefined ? undefined : parseLabels([label].flat())
  if (parent !== undefined && parent !== "none" && !isJobId(parent))
    throw wrong("parent", "must be a job's id, or none")
  const filter = readFilter({ ...shown, status: statuses, labels } as ShownFilter)
  return { ...filter, limit, after, deleted: deleted === "true" || (statuses?.includes("DELETED") ?? false) }
}

function parseStatuses(text: string): JobStatus[] {
  return text.split(",").map(part => {
    const status = part.trim().toUpperCase() as JobStatus
    if (!jobStatuses.includes(status)) throw wrong("status", `must be one of ${jobStatuses.join(", ")}`)
    return status
  })
}

function parseLabels(given: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    given.map(text => {
      const mark = text.indexOf("=")
      if (mark < 1 || text.includes("\u0000")) throw wrong("label", "must be NAME=VALUE")
      return [text.slice(0, mark), text.slice(mark + 1)]
    }),
  )
}

export function wrong(parameter: string, message: string): UmbraError {
  return new UmbraError("E633", `The parameter ${parameter} ${message}.`, {
    details: { errors: [{ path: `querystring.${parameter}`, message }] },
  })
}

/** Most jobs fit into one page. */
const USUAL = 1000
const MOST = 10_000
const PAGE_BYTES = 4 * 1024 * 1024

export const eventsQuery = z.strictObject({
  after: z
    .string()
    .regex(/^\d{1,15}(\.\d{1,9})?$/, "must be `next` of the previous page, or the seq of an event")
    .optional()
    .meta({
      description: "`next` of the previous page. Or the seq of an event: only events with a greater seq.",
      example: "17179869187.2",
    }),
  limit: schema.queryInt(1, MOST).default(USUAL).meta({ example: 100 }),
})

export function parseEventPage({ after, limit }: z.infer<typeof eventsQuery>): EventPageQuery {
  const [seq = "-1", index = "Infinity"] = after?.split(".") ?? []
  return { after: { seq: Number(seq), place: Number(index) }, limit, maxBytes: PAGE_BYTES }
}
