/** Aliases: the version that a name points at, and the history of its moves (J20). */

import { z } from "zod"
import { UmbraError } from "../../errors.ts"
import { deleteAlias, moveAlias } from "../../jobs/aliases.ts"
import { aliasHistory } from "../../jobs/workflows.ts"
import type { AliasTarget } from "../../journal/port/registry.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as schema from "../schemas/job.ts"
import * as views from "../schemas/workflow.ts"

const { manage, read } = operations("workflows")
const params = z.object({ name: schema.workflowName, alias: schema.aliasName })

export function aliasRoutes(app: App, { umbra }: RouteContext): void {
  app.put(
    "/workflows/:name/aliases/:alias",
    manage({
      summary: "Point an alias at a version, or at several by weight",
      params,
      body: views.aliasTarget,
      response: schema.answers({ 200: views.alias }, ["E305", "E311", "E635", "E636"]),
    }),
    async request => {
      const { owner, name: by } = request.caller
      const key = { owner, ...request.params }
      return moveAlias(umbra.registry, { ...key, targets: targetsOf(request.body), by })
    },
  )

  app.delete(
    "/workflows/:name/aliases/:alias",
    manage({
      summary: "Remove an alias",
      description: "Running jobs keep their version, and the history of the alias is kept.",
      params,
      response: schema.answers({ 204: z.null() }, ["E305", "E311"]),
    }),
    async (request, reply) => {
      const { owner, name: by } = request.caller
      await deleteAlias(umbra.registry, { owner, ...request.params, by })
      return reply.code(204).send(null)
    },
  )

  app.get(
    "/workflows/:name/aliases/:alias/history",
    read({
      summary: "Show the moves of an alias: time, author, old and new versions; newest first",
      description: "The last 1,000 moves.",
      params,
      response: schema.answers({ 200: z.object({ moves: z.array(views.aliasMove) }) }, ["E305"]),
    }),
    async request => aliasHistory(umbra.registry, { owner: request.caller.owner, ...request.params }),
  )
}

function isOneVersion(body: object): body is { version: number } {
  return "version" in body
}

function targetsOf(body: z.infer<typeof views.aliasTarget>): AliasTarget[] {
  if (isOneVersion(body)) return [{ version: body.version, weight: 1 }]
  const weights = "weights" in body ? (body.weights as Record<string, number>) : body
  const targets = Object.entries(weights).map(([version, weight]) => ({ version: Number(version), weight }))
  if (targets.length === 0 || targets.length > 100)
    throw new UmbraError("E633", "An alias points at 1 to 100 versions.")
  return targets
}
