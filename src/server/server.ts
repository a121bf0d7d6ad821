/**
 * Umbra over HTTP (S2, S3).
 *
 * 1. A 2xx to a submission or a command is sent after it is durable: Umbra's own answers wait for that.
 * 2. Every route has schemas for what it takes and gives, and says which scope it needs.
 * 3. What is refused for lack of room is refused before its body is read; what was accepted goes on.
 */
import type { ServerResponse } from "node:http"
import Fastify from "fastify"
import type { ZodTypeProvider } from "fastify-type-provider-zod"
import { UmbraError } from "../errors.ts"
import type { Log } from "../log.ts"
import type { Umbra } from "../umbra.ts"
import { admission } from "./auth/caller.ts"
import { Jwts } from "./auth/jwt.ts"
import { jwtIssuerOf } from "./auth/jwt-settings.ts"
import { type LocalToken, Tokens } from "./auth/tokens.ts"
import { takeBodies } from "./http/body.ts"
import { answerClientError } from "./http/client-error.ts"
import { isLoopback } from "./http/loopback.ts"
import { Methods } from "./http/methods.ts"
import { answerProblem, problemHandler } from "./http/problem.ts"
import { requestCheck } from "./http/request-check.ts"
import { ownerBounds, Unfinished } from "./http/unfinished.ts"
import { measure } from "./metrics.ts"
import { publish } from "./openapi/document.ts"
import type { App } from "./route-context.ts"
import { aliasRoutes } from "./routes/aliases.ts"
import { jobCommandRoutes } from "./routes/job-commands.ts"
import { jobRoutes } from "./routes/jobs.ts"
import { pipelineRoutes } from "./routes/pipelines.ts"
import { documentRoutes, processRoutes, workerRoutes } from "./routes/process.ts"
import { providerRoutes, webhookRoute } from "./routes/providers.ts"
import { streamRoutes } from "./routes/streams.ts"
import { tokenRoutes } from "./routes/tokens.ts"
import { workflowRoutes } from "./routes/workflows.ts"
import { type ServerSettings, serverSettings } from "./settings.ts"
import { Stopping } from "./stopping.ts"
import { Streams } from "./streams.ts"

export interface ServerOptions {
  readonly umbra: Umbra
  readonly host: string
  /** 0: any that is free. */
  readonly port: number
  readonly version: string
  readonly log: Log
  readonly settings?: Partial<ServerSettings>
  /** For commands on this machine (docs/cli.md). */
  readonly localToken?: LocalToken
}

export interface Server {
  readonly url: string
  /** Requests without a token are the local owner's. */
  readonly isOpen: boolean
  /** Whose JWTs are taken; null: nobody's. */
  readonly issuer: string | null
  /** Takes no more requests, answers those that wait, and ends its connections. Umbra itself stays open. */
  close(): Promise<void>
}

/** Answers that are under way may take this long to be sent. */
const SENDING_MS = 2000

export async function startServer(options: ServerOptions): Promise<Server> {
  const { umbra, host, port } = options
  const settings = serverSettings(options.settings)
  const tokens = new Tokens(umbra.registry)
  const issuer = jwtIssuerOf(settings)
  const hasNoKey = issuer === null && !(await tokens.anyInUse())
  const isOpen = hasNoKey && isLoopback(host)
  // What others serve needs no token (signed webhooks, /health, /ready), or is refused without one (/metrics).
  if (hasNoKey && !isOpen && umbra.roles.has("api"))
    throw new UmbraError(
      "E637",
      `There is no API token, so anybody who reaches ${host} could do anything. Make one with \`umbra token create\`, set up JWTs, or listen on 127.0.0.1.`,
    )
  const stopping = new Stopping()
  const jwts = issuer === null ? null : new Jwts(issuer, settings, options.log)
  const app = await makeApp(options, { settings, tokens, jwts, isOpen, stopping })
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
    issuer: issuer?.issuer ?? null,
    async close() {
      stopping.stop()
      const giveUp = setTimeout(() => app.server.closeAllConnections(), SENDING_MS)
      await app.close()
      clearTimeout(giveUp)
    },
  }
}

interface AppParts {
  readonly settings: ServerSettings
  readonly tokens: Tokens
  readonly jwts: Jwts | null
  readonly isOpen: boolean
  readonly stopping: Stopping
}

async function makeApp(
  { umbra, version, log, localToken }: ServerOptions,
  { settings, tokens, jwts, isOpen, stopping }: AppParts,
): Promise<App> {
  const timeout = Math.ceil(settings.requestTimeoutSeconds * 1000)
  const app: App = Fastify({
    requestTimeout: timeout,
    // Node looks for late ones every 30 s unless told.
    http: { headersTimeout: timeout, connectionsCheckingInterval: Math.min(timeout / 2, 30_000) },
    clientErrorHandler: answerClientError,
    routerOptions: { maxParamLength: 2000 },
    return503OnClosing: false,
    frameworkErrors: (error, _, reply) => answerProblem(reply, new UmbraError("E633", `${error.message}.`)),
  }).withTypeProvider<ZodTypeProvider>()
  app.setValidatorCompiler(requestCheck)
  // Answers are made by our own code and checked against their schemas by the tests, not again for every request.
  app.setSerializerCompiler(() => JSON.stringify)
  app.setErrorHandler(problemHandler(log))
  const methods = new Methods(app)
  const advice = umbra.roles.has("api")
    ? "/docs lists what there is."
    : `This process has the role ${[...umbra.roles].join(", ")}; one with the role api serves the rest.`
  app.setNotFoundHandler((request, reply) => {
    const path = pathOf(request.url)
    const allowed = methods.at(path).join(", ")
    const text = `There is no ${request.method} ${path.slice(0, 200)}.`
    if (allowed === "") return answerProblem(reply, new UmbraError("E634", `${text} ${advice}`))
    return answerProblem(reply.header("allow", allowed), new UmbraError("E647", `${text} Use ${allowed}.`))
  })
  takeBodies(app, settings.maxBodyBytes)
  app.decorateRequest("caller")
  app.addHook("onRequest", async (_, reply) => void reply.headers(protections))
  const streams = new Streams({
    settings,
    stopping,
    uncount: boundRequests(app, settings.maxRequests, stopping),
  })
  app.addHook("onRequest", admission({ tokens, jwts, isOpen, rateLimit: settings.rateLimit, localToken }))
  const metrics = measure(app, umbra, streams)
  await publish(app, version)
  const unfinished = new Unfinished({ look: umbra.unfinishedJobs })
  umbra.pipelines.admit = owner => (id, store) => unfinished.admit(ownerBounds(owner, settings), id, store)
  const parts = { umbra, settings, stopping, tokens, isOpen, unfinished }
  await app.register(async scoped => {
    const routes = scoped as App
    processRoutes(routes, parts, metrics)
    if (!umbra.roles.has("api")) return
    workerRoutes(routes, parts)
    documentRoutes(routes)
    workflowRoutes(routes, parts)
    aliasRoutes(routes, parts)
    jobRoutes(routes, parts)
    streamRoutes(routes, parts, streams)
    jobCommandRoutes(routes, parts)
    pipelineRoutes(routes, parts)
    tokenRoutes(routes, parts)
    providerRoutes(routes, parts)
  })
  if (umbra.roles.has("webhooks")) await app.register(async scoped => webhookRoute(scoped as App, parts))
  await app.ready()
  return app
}

/** Beyond so many at once the rest is refused while that is still cheap. Answers how to take one out of the count. */
function boundRequests(app: App, most: number, stopping: Stopping): (raw: ServerResponse) => void {
  let open = 0
  const uncounted = new WeakSet<ServerResponse>()
  app.addHook("onRequest", async (request, reply) => {
    // A server that has its hands full lives: whoever asks must not take it for dead.
    if (alwaysAnswered.has(request.routeOptions.url ?? "")) return
    open++
    reply.raw.once("close", () => {
      if (!uncounted.has(reply.raw)) open--
    })
    if (stopping.isStopping) {
      reply.header("connection", "close")
      throw new UmbraError("E612", "The server is about to end and takes no more requests.")
    }
    if (open > most)
      throw new UmbraError("E611", `The server has ${most} requests in progress and takes no more for now.`)
  })
  return raw => {
    uncounted.add(raw)
    open--
  }
}

const alwaysAnswered: ReadonlySet<string> = new Set(["/health", "/ready", "/metrics"])

const protections = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
}

function pathOf(url: string): string {
  return url.replace(/\?.*/s, "")
}

function urlOf(app: App): string {
  const address = app.server.address()
  if (address === null || typeof address === "string") return String(address)
  const host = address.family === "IPv6" ? `[${address.address}]` : address.address
  return `http://${host}:${address.port}`
}
