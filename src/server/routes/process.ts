/** The state of this process. */
import type { Registry } from "prom-client"
import { z } from "zod"
import type { Umbra } from "../../umbra.ts"
import { docsPage } from "../openapi/docs-page.ts"
import type { ApiDocument } from "../openapi/document.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as schema from "../schemas/job.ts"

const { admin, open } = operations("server")

const readiness = z
  .object({
    ready: z.boolean(),
    database: z.enum(["reachable", "away"]),
    engine: z.boolean().describe("An engine that accepts jobs is known, in this process or in another."),
    partitions: z.number().int().describe("Number of partitions that this process owns."),
  })
  .meta({ examples: [{ ready: true, database: "reachable", engine: true, partitions: 64 }] })

const count = z.number().int().min(0)

const workerExample = {
  id: "engine-5b1f0c9e-2d4a",
  host: "worker-1",
  pid: 4711,
  version: "0.1.0",
  state: "live",
  last_beat: "2026-11-15T12:00:00.000Z",
  handlers: ["call_external_service", "transform"],
  concurrency: 16,
  running: 3,
  queued: 0,
  partitions: 64,
}

const worker = z
  .object({
    id: z.string(),
    host: z.string(),
    pid: z.number().int(),
    version: z.string(),
    state: z
      .enum(["live", "dead", "outdated"])
      .describe("outdated: the worker runs an earlier release; it is alive, but gets no tasks."),
    last_beat: z.string().meta({ format: "date-time" }),
    handlers: z.array(z.string()),
    concurrency: count.describe("Attempts that it may run at the same time."),
    running: count,
    queued: count.describe("Attempts that wait for a slot."),
    partitions: count.describe("Number of partitions that its process owns."),
  })
  .meta({ id: "Worker", examples: [workerExample] })

const health200 = z
  .object({
    status: z.literal("ok"),
    workers: z.object({ live: count, dead: count, outdated: count.optional() }),
  })
  .meta({ examples: [{ status: "ok", workers: { live: 2, dead: 0 } }] })

export function processRoutes(app: App, { umbra, stopping }: RouteContext, metrics: Registry): void {
  const health = healthText(umbra)
  const answersNow = reachability(umbra)
  const needsEngine = umbra.roles.has("api")

  app.get(
    "/health",
    open({
      summary: "Is the process alive? Also the number of live workers at the last heartbeat",
      security: [],
      response: schema.answers({ 200: health200 }, [], true),
    }),
    (_, reply) => {
      reply.header("content-type", "application/json; charset=utf-8").send(health() as never)
    },
  )

  app.get(
    "/ready",
    open({
      summary:
        "Is the process ready? The database is reachable; role engine: it owns partitions; role api: an engine has been seen",
      security: [],
      response: schema.answers({ 200: readiness, 503: readiness }, ["E639"], true),
    }),
    async (_, reply) => {
      const isReachable = await answersNow()
      const { partitions, isReady, hasTaker: engine, hadTaker } = umbra.health()
      // Checked until it was true once: without engines the process still serves jobs and streams; only submissions get 503.
      const ready = isReachable && isReady && (hadTaker || !needsEngine) && !stopping.isStopping
      const database = isReachable ? "reachable" : "away"
      return reply.code(ready ? 200 : 503).send({ ready, database, engine, partitions })
    },
  )

  app.get(
    "/metrics",
    admin({
      summary: "Metrics for Prometheus",
      description: "The metrics cover all owners, so the scope admin is required.",
      response: schema.answers(schema.plainText("umbra_partitions 64\n"), []),
    }),
    async (_, reply) =>
      reply
        .header("content-type", metrics.contentType)
        .serializer(String)
        .send(await metrics.metrics()),
  )
}

/** S5. */
export function workerRoutes(app: App, { umbra }: RouteContext): void {
  app.get(
    "/workers",
    admin({
      summary: "List the workers on this store",
      description:
        "Workers serve all owners, so the scope admin is required. A worker that died is shown for some minutes; a worker that was stopped is not shown.",
      response: schema.answers({ 200: z.object({ workers: z.array(worker) }) }, []),
    }),
    async () => ({ workers: umbra.workers() }),
  )
}

export function documentRoutes(app: App): void {
  app.get("/openapi.json", { config: { scope: "none" }, schema: { hide: true } }, async () => app.swagger())

  app.get("/docs", { config: { scope: "none" }, schema: { hide: true } }, async (_, reply) =>
    reply
      .header("content-type", "text/html; charset=utf-8")
      .serializer(String)
      .send(docsPage(app.swagger() as ApiDocument)),
  )
}

const PING_MS = 2000

/** The text is built when the counts change, not for every request. */
function healthText(umbra: Umbra): () => string {
  let counts: Umbra["workerCounts"] | null = null
  let text = ""
  return () => {
    if (counts !== umbra.workerCounts) {
      counts = umbra.workerCounts
      text = JSON.stringify({ status: "ok", workers: counts })
    }
    return text
  }
}

/** One database query at a time, however many requests arrive: this route needs no token. */
function reachability(umbra: Umbra): () => Promise<boolean> {
  let asked: Promise<boolean> | null = null
  const ask = async () => {
    const ping = umbra.ping().then(
      () => true,
      () => false,
    )
    const patience = new Promise<boolean>(resolve => setTimeout(resolve, PING_MS, false).unref())
    return Promise.race([ping, patience])
  }
  return () => {
    asked ??= ask().finally(() => {
      asked = null
    })
    return asked
  }
}
