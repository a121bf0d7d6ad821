/** API tokens. A token with scope admin manages the tokens of its owner, the local token those of all owners. */
import { z } from "zod"
import { UmbraError } from "../../errors.ts"
import { cutPage } from "../../jobs/workflows.ts"
import { ownerFilter, sees } from "../auth/caller.ts"
import { tokenView } from "../auth/tokens.ts"
import { limitsWithin, toTokenLimits } from "../http/limits.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import { answers, jobId } from "../schemas/job.ts"
import * as schema from "../schemas/token.ts"

const { admin } = operations("tokens")

export function tokenRoutes(app: App, { tokens, isOpen, settings }: RouteContext): void {
  app.post(
    "/tokens",
    admin({
      summary: "Create a token",
      description:
        "The token's text is in this answer and is not stored. A limit that is not given is copied from the token used for this request, or is the server's default; no limit may be higher than that token's (E631).",
      body: schema.newToken,
      response: answers({ 201: schema.madeToken }, ["E635", "E636"]),
    }),
    async (request, reply) => {
      const { owner = request.caller.owner, scopes } = request.body
      if (!sees(request.caller, owner))
        throw new UmbraError("E631", "A token with scope admin can create tokens for its own owner only.")
      const maker = request.caller.limits
      const wanted = toTokenLimits(request.body)
      const limits = maker === null ? wanted : limitsWithin(maker, wanted, settings)
      const { token, row } = await tokens.create({ owner, scopes, limits })
      return reply.code(201).send({ ...tokenView(row), token, server_is_open: isOpen })
    },
  )

  app.get(
    "/tokens",
    admin({
      summary: "List tokens, including revoked ones; oldest first",
      querystring: schema.tokenQuery,
      response: answers({ 200: schema.tokenPage }, []),
    }),
    async request => {
      const { owner, after, limit } = request.query
      if (owner !== undefined && !sees(request.caller, owner)) return { tokens: [], next: null }
      const rows = await tokens.list({
        ...(owner === undefined ? ownerFilter(request.caller) : { owner }),
        after,
        limit: limit + 1,
      })
      const { page, next } = cutPage(rows, limit, ({ id }) => id)
      return { tokens: page.map(tokenView), next }
    },
  )

  app.delete(
    "/tokens/:id",
    admin({
      summary: "Revoke a token",
      description: "The next request with this token is rejected.",
      params: z.object({ id: jobId }),
      response: answers({ 204: z.null() }, ["E320"]),
    }),
    async (request, reply) => {
      await tokens.revoke(request.params.id, ownerFilter(request.caller))
      return reply.code(204).send(null)
    },
  )
}
