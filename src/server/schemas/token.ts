/** Tokens in requests and answers. */
import { z } from "zod"
import { knownScopes, ownerPattern } from "../auth/tokens.ts"
import { bounds } from "../http/limits.ts"
import { eg, int, jobIdExample, named, nullableText, limit as pageLimit, time } from "./job.ts"

const scope = z.enum(knownScopes)
const ownerName = z
  .string()
  .regex(ownerPattern, "must have 1 to 200 characters and no control characters")
  .meta({ example: "shop" })

const limit = {
  rate_limit: z.number().positive().max(bounds.rateLimit),
  max_unfinished_jobs: int.positive().max(bounds.maxUnfinishedJobs),
  max_body_bytes: int.positive().max(bounds.maxBodyBytes),
}

const limits = {
  rate_limit: eg(
    limit.rate_limit.nullable(),
    50,
    "Requests per second, with a burst of twice that. null: the server's default.",
  ),
  max_unfinished_jobs: eg(
    limit.max_unfinished_jobs.nullable(),
    200,
    "Unfinished jobs submitted with the token. null: the server's default.",
  ),
  max_body_bytes: eg(limit.max_body_bytes.nullable(), null, "null: the server's default."),
}

const token = named("Token", {
  id: eg(z.string(), jobIdExample),
  owner: eg(z.string(), "shop"),
  scopes: eg(z.array(z.string()), ["read", "submit"]),
  last_four: eg(z.string(), "9xQe", "The last four characters of the token's text, to recognise it."),
  created_at: time,
  revoked_at: eg(time.nullable(), null),
  ...limits,
})

export const tokenPage = z.object({ tokens: z.array(token), next: nullableText })

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

export const madeToken = token.extend({
  token: eg(z.string(), "umbra_…", "The token's text. It is shown only in this answer."),
  server_is_open: z
    .boolean()
    .describe("The server was started without tokens, and requires them only after a restart."),
})

export const tokenQuery = z.strictObject({
  owner: ownerName.optional(),
  after: z.uuid({ error: "must be `next` of the previous page" }).optional().meta({ example: jobIdExample }),
  limit: pageLimit,
})
