/** Sessions in requests and answers. */
import { z } from "zod"
import { knownScopes } from "../auth/tokens.ts"
import { eg, named, nullableText, time } from "./job.ts"

export const newSession = z
  .strictObject({ token: z.string().min(1).max(8192).describe("An API token, or a JWT.") })
  .meta({ examples: [{ token: "umbra_…" }] })

export const session = named("Session", {
  login: z
    .enum(["open", "required", "session", "token"])
    .describe(
      "open: a local server without tokens, which needs no login; required: nobody is logged in; session: by the cookie; token: by the header Authorization.",
    ),
  owner: eg(nullableText, "shop", "null: nobody is logged in."),
  scopes: eg(z.array(z.enum(knownScopes)), ["read", "submit"]),
  name: eg(nullableText, "token 0198c0de-7a11-7012-9abc-0123456789ab", "The author, in histories."),
  expires_at: eg(time.nullable(), "2026-11-16T00:00:00.000Z", "null: the login has no end of its own."),
  sees_other_owners: z
    .boolean()
    .describe("The header Umbra-Owner may name another owner, whose jobs and workflows can then be read."),
})
