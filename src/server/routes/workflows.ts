/** Workflows and their versions. Names are per owner (S3): workflows of other owners are not found. */

import { isDeepStrictEqual } from "node:util"
import { z } from "zod"
import { loadInTurns } from "../../definition/index.ts"
import type { Plan } from "../../definition/plan.ts"
import { invalidWorkflow } from "../../definition/problem.ts"
import { type ErrorCode, errorTable, UmbraError } from "../../errors.ts"
import { deleteAlias, moveAlias } from "../../jobs/aliases.ts"
import { withFreshNames } from "../../jobs/register.ts"
import {
  aliasHistory,
  deleteWorkflow,
  storedWorkflow,
  versionPage,
  versionView,
  workflowPage,
  workflowWithAliases,
} from "../../jobs/workflows.ts"
import type { AliasTarget } from "../../journal/port/registry.ts"
import { inTurns, type Work } from "../../turns.ts"
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

const { eg } = schema
const { name, version, hash } = views.storedVersion.shape
const storedAnswer = z.object({ name, version, hash, unchanged: z.boolean() })

const validAnswer = z.object({
  valid: z.literal(true),
  name,
  hash,
  nodes: eg(z.number().int(), 4),
  routes: z.number().int().describe("Number of routes of a pipeline."),
})

/** The differences between two versions of a workflow. */
type Keys = Record<string, unknown>
type Differences = Omit<z.output<typeof views.diff>, "name" | "from" | "to">

interface Changes {
  readonly added: string[]
  readonly removed: string[]
  readonly changed: [name: string, keys: string[]][]
}

/** Both are canonical, except for values of `retry` that were written although they are the default. */
function* diffOf(before: string, after: string): Work<Differences> {
  const old = divided(before)
  yield
  const now = divided(after)
  const nodes = yield* changes(old.nodes, now.nodes)
  const routes = yield* changes(old.routes, now.routes)
  return {
    nodes_added: nodes.added,
    nodes_removed: nodes.removed,
    nodes_changed: nodes.changed.map(([id, keys]) => ({ id, keys })),
    routes_added: routes.added,
    routes_removed: routes.removed,
    routes_changed: routes.changed.map(([name, keys]) => ({ name, keys })),
    keys_changed: changedKeys(old.rest, now.rest),
  }
}

/** A document has nodes or routes; a later version may have the other. */
function divided(definition: string) {
  const {
    nodes = [],
    routes = [],
    ...rest
  } = JSON.parse(definition) as Keys & Record<"nodes" | "routes", Keys[]>
  const by = (key: string, entries: readonly Keys[]) =>
    new Map(entries.map(entry => [String(entry[key]), entry]))
  return { nodes: by("id", nodes), routes: by("name", routes), rest }
}

function* changes(old: ReadonlyMap<string, Keys>, now: ReadonlyMap<string, Keys>): Work<Changes> {
  const changed: Changes["changed"] = []
  for (const [name, entry] of now) {
    const keys = changedKeys(old.get(name) ?? entry, entry)
    if (keys.length > 0) changed.push([name, keys])
    yield
  }
  return {
    added: [...now.keys()].filter(name => !old.has(name)),
    removed: [...old.keys()].filter(name => !now.has(name)),
    changed,
  }
}

function changedKeys(before: Keys, after: Keys): string[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...keys].filter(key => !isDeepStrictEqual(before[key], after[key])).sort()
}

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
      return moveAlias(umbra.registry, { ...key, targets: targetsOf(request.body), by })
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

function targetsOf(body: z.infer<typeof views.aliasTarget>): AliasTarget[] {
  if (isOneVersion(body)) return [{ version: body.version, weight: 1 }]
  const weights = "weights" in body ? (body.weights as Record<string, number>) : body
  const targets = Object.entries(weights).map(([version, weight]) => ({ version: Number(version), weight }))
  if (targets.length === 0 || targets.length > 100)
    throw new UmbraError("E633", "An alias points at 1 to 100 versions.")
  return targets
}
