/** Workflows and their versions. Names are per owner (S3): workflows of other owners are not found. */

import { z } from "zod"
import { loadInTurns } from "../../definition/index.ts"
import type { Plan } from "../../definition/plan.ts"
import { invalidWorkflow } from "../../definition/problem.ts"
import { type ErrorCode, errorTable, UmbraError } from "../../errors.ts"
import { withFreshNames } from "../../jobs/register.ts"
import { versionView } from "../../jobs/workflow-view.ts"
import {
  deleteWorkflow,
  storedWorkflow,
  versionPage,
  workflowPage,
  workflowWithAliases,
} from "../../jobs/workflows.ts"
import { inTurns } from "../../turns.ts"
import { isKnown } from "../http/immutable.ts"
import { sendInTurns } from "../http/send-in-turns.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as facts from "../schemas/facts.ts"
import * as schema from "../schemas/job.ts"
import * as views from "../schemas/workflow.ts"
import { diffOf } from "../workflow-diff.ts"

const { manage, read } = operations("workflows")
const params = z.object({ name: schema.workflowName })
/** The text itself, JSON or YAML, so that problems have lines and columns. The published type is in openapi/document.ts. */
const documentText = z.string({ error: "must be a workflow, as JSON or YAML" }).max(2 ** 30)

/** Problems that a submitted workflow can have. */
const documentErrors: readonly ErrorCode[] = [
  ...(Object.keys(errorTable) as ErrorCode[]).filter(code => code.startsWith("E1")),
  "E426",
  "E502",
  "E635",
  "E636",
]

export function workflowRoutes(app: App, { umbra, settings }: RouteContext): void {
  let largeDocuments = 0

  app.get(
    "/workflows",
    read({
      summary: "List workflows by name, each with its latest version",
      querystring: z.strictObject({ after: schema.workflowName.optional(), limit: schema.limit }),
      response: schema.answers(
        { 200: z.object({ workflows: z.array(views.storedVersion), next: z.string().nullable() }) },
        [],
      ),
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
      response: schema.answers(
        { 200: z.object({ versions: z.array(views.storedVersion), next: z.number().nullable() }) },
        ["E305"],
      ),
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
      const key = { owner: request.caller.owner, name: request.params.name }
      const { from, to } = request.query
      const [before, after] = [
        await storedWorkflow(umbra, { ...key, version: from }),
        await storedWorkflow(umbra, { ...key, version: to }),
      ]
      return { name: key.name, from, to, ...(await inTurns(diffOf(before.definition, after.definition))) }
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
      const plan = await planOf(request.body, request.headers["content-type"])
      const { unchanged, ...found } = await umbra.registerPlan(
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
        body: documentText,
        response: schema.answers({ 200: validAnswer }, documentErrors),
      },
      { isDocument: true },
    ),
    async request => {
      const plan = await planOf(request.body, request.headers["content-type"])
      umbra.checkPlan(plan, request.caller.owner)
      const { name, hash, nodes, pipeline } = plan
      const counts = pipeline === null ? [nodes.length, 0] : [0, pipeline.routes.length]
      return { valid: true, name, hash, nodes: counts[0], routes: counts[1] }
    },
  )

  /** Workflows that wait for their check keep their text in memory. */
  async function planOf(text: string, contentType?: string): Promise<Plan> {
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

const storedAnswer = z
  .object({
    name: z.string(),
    version: z.number().int(),
    hash: z.string(),
    unchanged: z.boolean(),
  })
  .meta({ examples: [{ name: "order", version: 3, hash: "9f2c41d0", unchanged: false }] })

const validAnswer = z
  .object({
    valid: z.literal(true),
    name: z.string(),
    hash: z.string(),
    nodes: z.number().int(),
    routes: z.number().int().describe("Number of routes of a pipeline."),
  })
  .meta({ examples: [{ valid: true, name: "order", hash: "9f2c41d0", nodes: 4, routes: 0 }] })
