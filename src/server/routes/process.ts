/** What this process says of itself. */
import type { Registry } from "prom-client"
import { z } from "zod"
import { docsPage } from "../docs-page.ts"
import type { App, RouteParts } from "../parts.ts"
import * as schema from "../schema.ts"

const tags = ["server"]
const alive = JSON.stringify({ status: "ok" })

const readiness = z.object({
  ready: z.boolean(),
  database: z.enum(["reachable", "away"]),
  partitions: z.number().int().meta({ description: "Partitions that this process owns." }),
})

export function processRoutes(app: App, { umbra, stopping }: RouteParts, metrics: Registry): void {
  app.get(
    "/health",
    {
      config: { scope: "none" },
      schema: {
        tags,
        summary: "Is the process alive?",
        security: [],
        response: schema.answers({ 200: z.object({ status: z.literal("ok") }) }, [], true),
      },
    },
    (_, reply) => {
      reply.header("content-type", "application/json; charset=utf-8").send(alive as never)
    },
  )

  app.get(
    "/ready",
    {
      config: { scope: "none" },
      schema: {
        tags,
        summary: "Can it take work? Database reachable, partitions taken",
        security: [],
        response: schema.answers({ 200: readiness, 503: readiness }, ["E639"], true),
      },
    },
    async (_, reply) => {
      const isReachable = await Promise.race([
        umbra.ping().then(
          () => true,
          () => false,
        ),
        new Promise<boolean>(resolve => setTimeout(resolve, PING_MS, false).unref()),
      ])
      const { partitions } = umbra.vitals()
      const ready = isReachable && partitions > 0 && !stopping.isStopping
      return reply
        .code(ready ? 200 : 503)
        .send({ ready, database: isReachable ? "reachable" : "away", partitions })
    },
  )

  app.get(
    "/metrics",
    {
      config: { scope: "admin" },
      schema: {
        tags,
        summary: "Metrics for Prometheus",
        description: "They cover all owners, hence the scope admin.",
        response: schema.answers({ 200: z.string() }, []),
      },
    },
    async (_, reply) =>
      reply
        .header("content-type", metrics.contentType)
        .serializer(String)
        .send(await metrics.metrics()),
  )

  app.get("/openapi.json", { config: { scope: "none" }, schema: { hide: true } }, async () => app.swagger())

  app.get("/docs", { config: { scope: "none" }, schema: { hide: true } }, async (_, reply) =>
    reply.header("content-type", "text/html; charset=utf-8").serializer(String).send(docsPage(app.swagger())),
  )
}

const PING_MS = 2000
