/** Tokens in requests and answers. */
import { z } from "zod"
import { knownScopes, ownerPattern } from "../auth/tokens.ts"
import { bounds } from "../http/limits.ts"
import { jobIdExample, limit as pageLimit, time } from "./job.ts"

const scope = z.enum(knownScopes)
const ownerName = z
  .string()
  .regex(ownerPattern, "must have 1 to 200 characters and no control characters")
  .meta({ example: "shop" })

const limit = {
  rate_limit: z.number().positive().max(bounds.rateLimit),
  max_unfinished_jobs: z.number().int().positive().max(bounds.maxUnfinishedJobs),
  max_body_bytes: z.number().int().positive().max(bounds.maxBodyBytes),
}

const limits = {
  rate_limit: limit.rate_limit
    .nullable()
    .describe("Requests per second, with a burst of twice that. null: the server's default."),
  max_unfinished_jobs: limit.max_unfinished_jobs
    .nullable()
    .describe("Unfinished jobs submitted with the token. null: the server's default."),
  max_body_bytes: limit.max_body_bytes.nullable().describe("null: the server's default."),
}

const tokenExample = {
  id: "0198c0de-7a11-7012-9abc-0123456789ab",
  owner: "shop",
  scopes: ["read", "submit"],
  last_four: "9xQe",
  created_at: "2026-11-15T12:00:00.000Z",
  revoked_at: null,
  ...{ rate_limit: 50, max_unfinished_jobs: 200, max_body_bytes: null },
}

export const token = z
  .object({
    id: z.string(),
    owner: z.string(),
    scopes: z.array(z.string()),
    last_four: z.string().describe("The last four characters of the token's text, to recognise it."),
    created_at: time,
    revoked_at: time.nullable(),
    ...limits,
  })
  .meta({ id: "Token", examples: [tokenExample] })

export const newToken = z
  .strictObject({
    owner: ownerName.optional().describe("By default the caller's own."),
    scopes: z.array(scope).min(1).max(4),
    rate_limit: limit.rate_limit.optional(),
    max_unfinished_jobs: limit.max_unfinished_jobs.optional(),
    max_body_bytes: limit.max_body_bytes.optional(),
  })
  .meta({
    examples: [
      { scopes: ["read", "submit"], rate_limit: 50, max_unfinished_jobs: 200, max_body_bytes: 65_536 },
      { scopes: ["read"] },
    ],
  })

export const madeToken = token
  .extend({
    token: z.string().describe("The token's text. It is shown only in this answer."),
    server_is_open: z
      .boolean()
      .describe("The server was started without tokens, and requires them only after a restart."),
  })
  .meta({ examples: [{ ...tokenExample, token: "umbra_…", server_is_open: false }] })

export const tokenQuery = z.strictObject({
  owner: ownerName.optional(),
  after: z.uuid({ error: "must be `next` of the previous page" }).optional().meta({ example: jobIdExample }),
  limit: pageLimit,
})
