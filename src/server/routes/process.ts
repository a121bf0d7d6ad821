/** The state of this process. */
import type { Registry } from "prom-client"
import { z } from "zod"
import type { Umbra } from "../../umbra.ts"
import { type ApiDocument, docsPage } from "../openapi/document.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as schema from "../schemas/job.ts"

const { admin, open } = operations("server")
const { count, eg, int } = schema

const readiness = z.object({
  ready: eg(z.boolean(), true),
  database: z.enum(["reachable", "away"]),
  engine: eg(z.boolean(), true, "An engine that accepts jobs is known, in this process or in another."),
  partitions: eg(int, 64, "Number of partitions that this process owns."),
})

const worker = schema.named("Worker", {
  id: eg(z.string(), "engine-5b1f0c9e-2d4a"),
  host: eg(z.string(), "worker-1"),
  pid: eg(int, 4711),
  version: eg(z.string(), "0.2.0"),
  state: z
    .enum(["live", "dead", "outdated"])
    .describe("outdated: the worker runs an earlier release; it is alive, but gets no tasks."),
  last_beat: schema.time,
  handlers: eg(z.array(z.string()), ["call_external_service", "transform"]),
  concurrency: eg(count, 16, "Attempts that it may run at the same time."),
  running: eg(count, 3),
  queued: count.describe("Attempts that wait for a slot."),
  partitions: eg(count, 64, "Number of partitions that its process owns."),
})
const engines = schema.named("Engines", {
  engines: z.array(
    z.object({
      ...worker.pick({ id: true, host: true, pid: true, version: true, last_beat: true }).shape,
      state: z.enum(["live", "dead"]),
      partitions: eg(z.array(count), [0, 1, 2], "The partitions that it owns."),
    }),
  ),
  partitions: eg(count, 64, "How many partitions the store has."),
  unowned: eg(z.array(count), [], "Partitions that no engine owns: their jobs make no progress."),
})
const health200 = z.object({
  status: z.literal("ok"),
  workers: z.object({ live: eg(count, 2), dead: count, outdated: count.optional() }),
})

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

  app.get(
    "/engines",
    admin({
      summary: "List the engines on this store, and the partitions that each owns",
      description:
        "As of the last heartbeat of the process that answers. Engines run jobs of all owners, so the scope admin is required.",
      response: schema.answers({ 200: engines }, []),
    }),
    async () => umbra.engines() as z.infer<typeof engines>,
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
