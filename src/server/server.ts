/**
 * Umbra over HTTP (S2, S3).
 *
 * 1. A 2xx to a submission or a command is sent after it is durable: Umbra's own answers wait for that.
 * 2. Every route has schemas for what it takes and gives, and says which scope it needs.
 * 3. What is refused for lack of room is refused before its body is read; what was accepted goes on.
 */
import Fastify from "fastify"
import { validatorCompiler, type ZodTypeProvider } from "fastify-type-provider-zod"
import { UmbraError } from "../errors.ts"
import type { Log } from "../log.ts"
import type { Umbra } from "../umbra.ts"
import { takeBodies } from "./body.ts"
import { admission, isLoopback } from "./caller.ts"
import { measure } from "./metrics.ts"
import { publish } from "./openapi.ts"
import type { App } from "./parts.ts"
import { answerProblem, problemHandler } from "./problem.ts"
import { aliasRoutes } from "./routes/aliases.ts"
import { jobCommandRoutes } from "./routes/job-commands.ts"
import { jobRoutes } from "./routes/jobs.ts"
import { processRoutes } from "./routes/process.ts"
import { providerRoutes, webhookRoute } from "./routes/providers.ts"
import { workflowRoutes } from "./routes/workflows.ts"
import { type ServerSettings, serverSettings } from "./settings.ts"
import { Stopping } from "./stopping.ts"
import { Tokens } from "./tokens.ts"

export interface ServerOptions {
  readonly umbra: Umbra
  readonly host: string
  /** 0: any that is free. */
  readonly port: number
  readonly version: string
  readonly log: Log
  readonly settings?: Partial<ServerSettings>
}

export interface Server {
  readonly url: string
  /** Requests without a token are the local owner's. */
  readonly isOpen: boolean
  /** Takes no more requests, answers those that wait, and ends its connections. Umbra itself stays open. */
  close(): Promise<void>
}

/** Answers that are under way may take this long to be sent. */
const SENDING_MS = 2000

export async function startServer(options: ServerOptions): Promise<Server> {
  const { umbra, host, port } = options
  const tokens = new Tokens(umbra.registry)
  const isOpen = !(await tokens.anyInUse())
  if (isOpen && !isLoopback(host))
    throw new UmbraError(
      "E637",
      `There is no API token, so anybody who reaches ${host} could do anything. Make one with \`umbra token create\`, or listen on 127.0.0.1.`,
    )
  const stopping = new Stopping()
  const app = await makeApp(options, { tokens, isOpen, stopping })
  try {
    await app.listen({ host, port })
  } catch (error) {
    await app.close()
    throw new UmbraError("E638", `Cannot listen on ${host} port ${port}: ${(error as Error).message}.`, {
      cause: error,
    })
  }
  return {
    url: urlOf(app),
    isOpen,
    async close() {
      stopping.stop()
      const giveUp = setTimeout(() => app.server.closeAllConnections(), SENDING_MS)
      await app.close()
      clearTimeout(giveUp)
    },
  }
}

async function makeApp(
  { umbra, version, log, settings: given }: ServerOptions,
  { tokens, isOpen, stopping }: { tokens: Tokens; isOpen: boolean; stopping: Stopping },
): Promise<App> {
  const settings = serverSettings(given)
  const app: App = Fastify({
    bodyLimit: settings.maxBodyBytes,
    requestTimeout: 60_000,
    routerOptions: { maxParamLength: 2000 },
    return503OnClosing: false,
    frameworkErrors: (error, _, reply) => answerProblem(reply, new UmbraError("E633", `${error.message}.`)),
  }).withTypeProvider<ZodTypeProvider>()
  app.setValidatorCompiler(validatorCompiler)
  // Answers are made by our own code and checked against their schemas by the tests, not again for every request.
  app.setSerializerCompiler(() => JSON.stringify)
  app.setErrorHandler(problemHandler(log))
  app.setNotFoundHandler((request, reply) =>
    answerProblem(
      reply,
      new UmbraError(
        "E634",
        `There is no ${request.method} ${pathOf(request.url)}. /docs lists what there is.`,
      ),
    ),
  )
  takeBodies(app)
  app.decorateRequest("caller")
  app.addHook("onRequest", async (_, reply) => void reply.headers(protections))
  boundRequests(app, settings.maxRequests, stopping)
  app.addHook("onRequest", admission({ tokens, isOpen, rateLimit: settings.rateLimit }))
  const metrics = measure(app, umbra)
  await publish(app, version)
  const parts = { umbra, settings, stopping }
  await app.register(async scoped => {
    const routes = scoped as App
    processRoutes(routes, parts, metrics)
    workflowRoutes(routes, parts)
    aliasRoutes(routes, parts)
    jobRoutes(routes, parts)
    jobCommandRoutes(routes, parts)
    providerRoutes(routes, parts)
  })
  await app.register(async scoped => webhookRoute(scoped as App, parts))
  await app.ready()
  return app
}

/** Beyond so many at once the rest is refused while that is still cheap. */
function boundRequests(app: App, most: number, stopping: Stopping): void {
  let open = 0
  app.addHook("onRequest", async (_, reply) => {
    open++
    reply.raw.once("close", () => open--)
    if (stopping.isStopping) {
      reply.header("connection", "close")
      throw new UmbraError("E612", "The server is about to end and takes no more requests.")
    }
    if (open > most)
      throw new UmbraError("E611", `The server has ${most} requests in progress and takes no more for now.`)
  })
}

const protections = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
}

function pathOf(url: string): string {
  return url.replace(/\?.*/s, "").slice(0, 200)
}

function urlOf(app: App): string {
  const address = app.server.address()
  if (address === null || typeof address === "string") return String(address)
  const host = address.family === "IPv6" ? `[${address.address}]` : address.address
  return `http://${host}:${address.port}`
}
