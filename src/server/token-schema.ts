/** How tokens look in requests and answers. */
import { z } from "zod"
import { time } from "./schema.ts"
import { knownScopes, ownerPattern } from "./tokens.ts"

const scope = z.enum(knownScopes)
const ownerName = z.string().regex(ownerPattern).meta({ example: "shop" })

export const token = z
  .object({
    id: z.string(),
    owner: z.string(),
    scopes: z.array(z.string()),
    last_four: z.string().meta({ description: "Of the token's text, to recognise it by." }),
    created_at: time,
    revoked_at: time.nullable(),
  })
  .meta({ id: "Token" })

export const newToken = z
  .strictObject({
    owner: ownerName.optional().meta({ description: "The caller's own, unless told." }),
    scopes: z.array(scope).min(1).max(4),
  })
  .meta({ examples: [{ scopes: ["read", "submit"] }] })

export const madeToken = token.extend({
  token: z.string().meta({ description: "Told only now." }),
  server_is_open: z.boolean().meta({
    description: "The server was started without tokens, and asks for one only when it is started again.",
  }),
})

export const ownerQuery = z.strictObject({ owner: ownerName.optional() })
