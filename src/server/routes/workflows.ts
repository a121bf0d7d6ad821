/** Workflows and their versions. Names are per owner (S3): workflows of other owners are not found. */

import { z } from "zod"
import { compiledGraph } from "../../core/compiled-graph.ts"
import { loadInTurns } from "../../definition/index.ts"
import type { Plan } from "../../definition/plan.ts"
import { invalidWorkflow } from "../../definition/problem.ts"
import { UmbraError } from "../../errors.ts"
import { deleteAlias, moveAlias } from "../../jobs/aliases.ts"
import { withFreshNames } from "../../jobs/register.ts"
import {
  aliasHistory,
  deleteWorkflow,
  storedWorkflow,
  versionPage,
  versionView,
  workflowDiff,
  workflowPage,
  workflowWithAliases,
} from "../../jobs/workflows.ts"
import type { AliasTarget } from "../../journal/port/registry.ts"
import { inTurns } from "../../turns.ts"
import { isKnown } from "../http/immutable.ts"
import { sendInTurns } from "../http/send-in-turns.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as facts from "../schemas/facts.ts"
import * as schema from "../schemas/job.ts"
import * as views from "../schemas/workflow.ts"
import { pauseBody } from "./job-commands.ts"

const { manage, read } = operations("workflows")
const params = z.object({ name: schema.workflowName })
/** The text itself, JSON or YAML, so that problems have lines and columns. The published type is in openapi/document.ts. */
const documentText = z.string({ error: "must be a workflow, as JSON or YAML" }).max(2 ** 30)

/** Problems that a submitted workflow can have. */
const documentErrors = [...schema.codesFrom("E100", "E199"), ...(["E426", "E502", "E635", "E636"] as const)]

export function workflowRoutes(app: App, { umbra, settings }: RouteContext): void {
  let largeDocuments = 0

  app.get(
    "/workflows",
    read({
      summary: "List workflows by name, each with its latest version",
      querystring: z.strictObject({ after: schema.workflowName.optional(), limit: schema.limit }),
      response: schema.answers({ 200: views.workflowPage }, []),
    }),
    async request => workflowPage(umbra.registry, { owner: request.caller.owner, ...request.query }),
  )

  app.get(
    "/workflows/:name",
    read({
      summary: "Show a workflow: its latest version and its aliases",
      params,
      response: schema.answers({ 200: views.workflow }, ["E305"]),
    }),
    async request => workflowWithAliases(umbra, { owner: request.caller.owner, ...request.params }),
  )

  app.get(
    "/workflows/:name/versions",
    read({
      summary: "List the versions of a workflow, newest first",
      params,
      querystring: z.strictObject({ before: schema.version.optional(), limit: schema.limit }),
      response: schema.answers({ 200: views.versionPage }, ["E305"]),
    }),
    async ({ caller: { owner }, params, query }) =>
      versionPage(umbra.registry, { owner, ...params, ...query }),
  )

  app.get(
    "/workflows/:name/versions/:version",
    read({
      summary: "Show one version",
      params: params.extend({ version: schema.version }),
      response: schema.answers({ 200: views.workflow }, ["E305"]),
    }),
    async request =>
      versionView(await storedWorkflow(umbra, { owner: request.caller.owner, ...request.params })),
  )

  app.get(
    "/workflows/:name/versions/:version/graph",
    read({
      summary: "Show the compiled graph of a version",
      description:
        "What a program needs to fold the facts of a job: nodes, handlers, dependencies and retry policies. It never changes, and is kept for jobs of a deleted workflow.",
      params: params.extend({ version: schema.version }),
      response: schema.answers({ 200: facts.compiledGraph, 304: facts.notModified }, ["E305"]),
    }),
    async (request, reply) => {
      const { name, version } = request.params
      const graph = await umbra.queries.facts.compiledGraph({ owner: request.caller.owner, name, version })
      if (isKnown(request, reply, `${version}-${graph.hash}`)) return reply.code(304).send(null)
      return sendInTurns(reply, { name, version, nodes: graph.nodes })
    },
  )

  app.get(
    "/workflows/:name/diff",
    read({
      summary: "Compare two versions",
      params,
      querystring: z.strictObject({ from: schema.version, to: schema.version }),
      response: schema.answers({ 200: views.diff }, ["E305"]),
    }),
    async request => {
      const { owner } = request.caller
      return workflowDiff(umbra, { owner, ...request.params, ...request.query })
    },
  )

  app.delete(
    "/workflows/:name",
    manage({
      summary: "Delete a workflow",
      description: "Running jobs keep their version. A later push continues the version numbers.",
      params,
      response: schema.answers({ 204: z.null() }, ["E305"]),
    }),
    async (request, reply) => {
      const { owner, name: by } = request.caller
      await deleteWorkflow(umbra.registry, { owner, ...request.params, by })
      return reply.code(204).send(null)
    },
  )

  app.post(
    "/workflows/:name/pause",
    manage({
      summary: "Pause a workflow",
      description:
        "New jobs of it, child jobs too, are accepted and do not begin; other processes apply this within a second. Jobs that were submitted before continue. A paused workflow is not changed.",
      params,
      body: pauseBody,
      response: schema.answers({ 200: views.workflow }, ["E305", "E635", "E636"]),
    }),
    async ({ caller: { owner, name: by }, params: { name }, body }) => {
      await umbra.pauseWorkflow(name, { owner, by, reason: body?.reason })
      return workflowWithAliases(umbra, { owner, name })
    },
  )

  app.post(
    "/workflows/:name/resume",
    manage({
      summary: "Resume a paused workflow",
      description:
        "New jobs begin again. Those that waited are resumed a page at a time, also if the process dies meanwhile.",
      params,
      response: schema.answers({ 200: views.workflow }, ["E305"]),
    }),
    async ({ caller: { owner }, params: { name } }) => {
      await umbra.resumeWorkflow(name, { owner })
      return workflowWithAliases(umbra, { owner, name })
    },
  )

  app.post(
    "/workflows",
    manage(
      {
        summary: "Store a workflow",
        description:
          "201: a new version. 200: the latest version already has this content. 422: the list of all problems.",
        body: documentText,
        response: schema.answers({ 200: storedAnswer, 201: storedAnswer }, documentErrors),
      },
      { isDocument: true },
    ),
    async (request, reply) => {
      const plan = await compileText(request.body, request.headers["content-type"])
      const { unchanged, ...found } = await umbra.registrations.registerPlan(
        plan,
        request.caller.owner,
        request.caller.name,
      )
      return reply.code(unchanged ? 200 : 201).send({ ...found, unchanged })
    },
  )

  app.post(
    "/workflows/validate",
    read(
      {
        summary: "Check a workflow without storing it",
        querystring: z.strictObject({
          graph: z.enum(["true", "false"]).optional().meta({
            description: "`true`: answer also with its compiled graph, as it would be stored.",
            example: "true",
          }),
          definition: facts.withDefinition,
        }),
        body: documentText,
        response: schema.answers({ 200: validAnswer }, documentErrors),
      },
      { isDocument: true },
    ),
    async (request, reply) => {
      const plan = await compileText(request.body, request.headers["content-type"])
      umbra.registrations.check(plan, request.caller.owner)
      const { name, hash, nodes, pipeline } = plan
      const counts = pipeline === null ? [nodes.length, 0] : [0, pipeline.routes.length]
      const answer = { valid: true as const, name, hash, nodes: counts[0]!, routes: counts[1]! }
      const { graph, definition } = request.query
      if (graph !== "true" && definition !== "true") return answer
      return sendInTurns(reply, {
        ...answer,
        graph: graph === "true" ? await inTurns(compiledGraph(plan)) : undefined,
        definition: definition === "true" ? plan.document : undefined,
      })
    },
  )

  /** Workflows that wait for their check keep their text in memory. */
  async function compileText(text: string, contentType?: string): Promise<Plan> {
    if (text.length <= LARGE) return checked(text, contentType)
    const { maxLargeDocuments: most } = settings
    if (largeDocuments >= most)
      throw new UmbraError(
        "E611",
        `The server is already checking ${most} large workflows. Try again shortly.`,
      )
    largeDocuments++
    try {
      return await checked(text, contentType)
    } finally {
      largeDocuments--
    }
  }

  async function checked(text: string, contentType = ""): Promise<Plan> {
    const format = /^application\/json\b/i.test(contentType) ? "json" : "yaml"
    const { handlers, adapters } = umbra
    const { plan, problems } = await withFreshNames(handlers, () =>
      loadInTurns(text, { handlers, adapters, format }),
    )
    if (plan !== undefined) return plan
    throw invalidWorkflow(problems)
  }
}

/** Shorter documents are checked at once. */
const LARGE = 32 * 1024

const { eg } = schema
const { name, version, hash } = views.storedVersion.shape
const storedAnswer = z.object({ name, version, hash, unchanged: z.boolean() })

const validAnswer = z.object({
  valid: z.literal(true),
  name,
  hash,
  nodes: eg(schema.int, 4),
  routes: schema.int.describe("Number of routes of a pipeline."),
  graph: facts.compiledGraph
    .pick({ nodes: true })
    .optional()
    .describe("With `graph=true`. That of a pipeline is one node."),
  definition: facts.definition.optional(),
})

const aliasParams = z.object({ name: schema.workflowName, alias: schema.aliasName })

/** Aliases: the version that a name points at, and the history of its moves (J20). */
export function aliasRoutes(app: App, { umbra }: RouteContext): void {
  app.put(
    "/workflows/:name/aliases/:alias",
    manage({
      summary: "Point an alias at a version, or at several by weight",
      params: aliasParams,
      body: views.aliasTarget,
      response: schema.answers({ 200: views.alias }, ["E305", "E311", "E635", "E636"]),
    }),
    async request => {
      const { owner, name: by } = request.caller
      const key = { owner, ...request.params }
      return moveAlias(umbra.registry, { ...key, targets: toAliasTargets(request.body), by })
    },
  )

  app.delete(
    "/workflows/:name/aliases/:alias",
    manage({
      summary: "Remove an alias",
      description: "Running jobs keep their version, and the history of the alias is kept.",
      params: aliasParams,
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
      params: aliasParams,
      response: schema.answers({ 200: z.object({ moves: z.array(views.aliasMove) }) }, ["E305"]),
    }),
    async request => aliasHistory(umbra.registry, { owner: request.caller.owner, ...request.params }),
  )
}

function isOneVersion(body: object): body is { version: number } {
  return "version" in body
}

function toAliasTargets(body: z.infer<typeof views.aliasTarget>): AliasTarget[] {
  if (isOneVersion(body)) return [{ version: body.version, weight: 1 }]
  const weights = "weights" in body ? (body.weights as Record<string, number>) : body
  const targets = Object.entries(weights).map(([version, weight]) => ({ version: Number(version), weight }))
  if (targets.length === 0 || targets.length > 100)
    throw new UmbraError("E633", "An alias points at 1 to 100 versions.")
  return targets
}
