/**
 * Umbra over HTTP (S2, S3).
 *
 * 1. A submission or command is answered with 2xx after it is durable: Umbra's own methods resolve then.
 * 2. Every route has schemas for requests and responses, and declares the scope it needs.
 * 3. A request that exceeds a limit of the server is rejected before its body is read; accepted requests continue.
 */
import type { ServerResponse } from "node:http"
import Fastify from "fastify"
import type { ZodTypeProvider } from "fastify-type-provider-zod"
import { UmbraError } from "../errors.ts"
import type { Log } from "../log.ts"
import type { Umbra } from "../umbra.ts"
import { admission } from "./auth/caller.ts"
import type { Jwts } from "./auth/jwt.ts"
import { readJwtIssuer } from "./auth/jwt-settings.ts"
import { Sessions } from "./auth/sessions.ts"
import { type LocalToken, Tokens } from "./auth/tokens.ts"
import { serveDashboard } from "./dashboard.ts"
import { builtDashboard } from "./dashboard-folder.ts"
import { takeBodies } from "./http/body.ts"
import { cannotListen, isLoopback } from "./http/limits.ts"
import { answerClientError, answerProblem, problemHandler } from "./http/problem.ts"
import { requestCheck } from "./http/request-check.ts"
import { forkBounds, ownerBounds, Unfinished } from "./http/unfinished.ts"
import { measure } from "./metrics.ts"
import { publish } from "./openapi/document.ts"
import { type App, type RouteContext, readJobs, Stopping } from "./route-context.ts"
import { artifactRoutes, uploadRoute } from "./routes/artifacts.ts"
import { bulkRoutes } from "./routes/bulk.ts"
import { compareRoutes } from "./routes/compare.ts"
import { factRoutes } from "./routes/facts.ts"
import { forkRoutes } from "./routes/forks.ts"
import { jobCommandRoutes } from "./routes/job-commands.ts"
import { jobRoutes } from "./routes/jobs.ts"
import { logRoutes } from "./routes/logs.ts"
import { pipelineRoutes } from "./routes/pipelines.ts"
import { documentRoutes, processRoutes, workerRoutes } from "./routes/process.ts"
import { providerRoutes, webhookRoute } from "./routes/providers.ts"
import { scheduleRoutes } from "./routes/schedules.ts"
import { sessionRoutes } from "./routes/session.ts"
import { statisticsRoutes } from "./routes/statistics.ts"
import { streamRoutes } from "./routes/streams.ts"
import { tokenRoutes } from "./routes/tokens.ts"
import { aliasRoutes, workflowRoutes } from "./routes/workflows.ts"
import { type ServerSettings, serverSettings } from "./settings.ts"
import { Streams } from "./streams.ts"

export interface ServerOptions {
  readonly umbra: Umbra
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly version: string
  readonly log: Log
  readonly settings?: Partial<ServerSettings>
  /** For commands on this machine (docs/reference/cli.md). */
  readonly localToken?: LocalToken
  /** The folder of the built dashboard; by default that of this installation. */
  readonly dashboard?: string
}

export interface Server {
  readonly url: string
  /** Requests without a token belong to the local owner. */
  readonly isOpen: boolean
  /** Which JWTs are accepted; null: none. */
  readonly issuer: string | null
  /** Accepts no more requests, answers those that wait, and closes its connections. Umbra itself stays open. */
  close(): Promise<void>
}

/** Time for responses in progress to be sent. */
const SENDING_MS = 2000

export async function startServer(options: ServerOptions): Promise<Server> {
  const { umbra, host, port } = options
  const settings = serverSettings(options.settings)
  const tokens = new Tokens(umbra.registry)
  const issuer = readJwtIssuer(settings)
  const hasNoKey = issuer === null && !(await tokens.anyInUse())
  const isOpen = hasNoKey && isLoopback(host)
  // The routes of other roles need no token (signed webhooks, /health, /ready), or are rejected without one (/metrics).
  if (hasNoKey && !isOpen && umbra.roles.has("api"))
    throw new UmbraError(
      "E637",
      `No API token exists, so anyone who can reach ${host} would have full access. Create a token with \`umbra token create\`, set up JWTs, or listen on 127.0.0.1.`,
    )
  const stopping = new Stopping()
  // A server without JWTs does not load the library for them.
  const jwts =
    issuer === null ? null : new (await import("./auth/jwt.ts")).Jwts(issuer, settings, options.log)
  const app = await makeApp(options, { settings, tokens, jwts, isOpen, stopping })
  try {
    await app.listen({ host, port })
  } catch (error) {
    await app.close()
    throw cannotListen(host, port, error)
  }
  return {
    url: serverUrl(app),
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

/**
 * Without these, Fastify loads compilers of its own, ajv among them, also if others are set later. Our own code builds the
 * responses, and the tests check them against the schemas, so they are not checked per request.
 */
const compilersFactory = {
  buildValidator: () => requestCheck,
  buildSerializer: () => () => JSON.stringify,
  // The types are those of Fastify's own compilers.
} as never

type AppOptions = Omit<RouteContext, "umbra" | "unfinished"> & { readonly jwts: Jwts | null }

async function makeApp(
  { umbra, version, log, localToken, dashboard = builtDashboard }: ServerOptions,
  { jwts, ...shared }: AppOptions,
): Promise<App> {
  const { settings, tokens, isOpen, stopping } = shared
  const timeout = Math.ceil(settings.requestTimeoutSeconds * 1000)
  const app: App = Fastify({
    requestTimeout: timeout,
    // Node's default interval for checking request timeouts is 30 s.
    http: { headersTimeout: timeout, connectionsCheckingInterval: Math.min(timeout / 2, 30_000) },
    clientErrorHandler: answerClientError,
    routerOptions: { maxParamLength: 2000 },
    rewriteUrl: ({ url = "/" }) => withoutBase(url, settings.basePath),
    return503OnClosing: false,
    schemaController: { compilersFactory },
    frameworkErrors: (error, _, reply) => answerProblem(reply, new UmbraError("E633", `${error.message}.`)),
  }).withTypeProvider<ZodTypeProvider>()
  app.setErrorHandler(problemHandler(log))
  const methods = new Methods(app)
  const advice = umbra.roles.has("api")
    ? "/docs lists all routes."
    : `This process has the role ${[...umbra.roles].join(", ")}; a process with the role api serves all routes.`
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.replace(/\?.*/s, "")
    const allowed = methods.at(path).join(", ")
    const text = `There is no route ${request.method} ${path.slice(0, 200)}.`
    if (allowed === "") return answerProblem(reply, new UmbraError("E634", `${text} ${advice}`))
    return answerProblem(reply.header("allow", allowed), new UmbraError("E647", `${text} Use ${allowed}.`))
  })
  takeBodies(app, settings.maxBodyBytes)
  app.decorateRequest("caller")
  app.decorateRequest("job")
  app.decorateRequest("route")
  // Hooks that need not wait are called back instead of async: a promise each would cost as much as the hook.
  app.addHook("onRequest", (request, reply, done) => {
    request.route = request.routeOptions.config
    reply.headers(protections)
    done()
  })
  const streams = new Streams({
    settings,
    stopping,
    uncount: boundRequests(app, settings.maxRequests, stopping),
  })
  const sessions = new Sessions(umbra.registry)
  const { rateLimit, basePath } = settings
  const admitting = admission({ tokens, jwts, isOpen, rateLimit, localToken, sessions })
  app.addHook("onRequest", admitting.hook)
  const metrics = measure(app, umbra, streams)
  await publish(app, version)
  const unfinished = new Unfinished({ look: umbra.unfinishedJobs })
  umbra.pipelines.admit = owner => (id, store) => unfinished.admit(ownerBounds(owner, settings), id, store)
  umbra.schedules.limits.admit = owner => (id, store) =>
    unfinished.admit(ownerBounds(owner, settings), id, store)
  umbra.bulk.forks.admit = limits => (id, store) => unfinished.admit(forkBounds(limits, settings), id, store)
  const context = { ...shared, umbra, unfinished }
  await app.register(async scoped => {
    const routes = scoped as App
    readJobs(routes, umbra)
    processRoutes(routes, context, metrics)
    if (!umbra.roles.has("api")) return
    workerRoutes(routes, context)
    documentRoutes(routes)
    sessionRoutes(routes, { sessions, admitting, isOpen })
    workflowRoutes(routes, context)
    aliasRoutes(routes, context)
    statisticsRoutes(routes, context)
    compareRoutes(routes, context)
    jobRoutes(routes, context)
    logRoutes(routes, context, streams)
    artifactRoutes(routes, context)
    await routes.register(async upload => uploadRoute(upload as App, context))
    factRoutes(routes, { ...context, reports: { folder: dashboard, version } }, streams)
    streamRoutes(routes, context, streams)
    jobCommandRoutes(routes, context)
    forkRoutes(routes, context)
    bulkRoutes(routes, context)
    scheduleRoutes(routes, context)
    pipelineRoutes(routes, context)
    tokenRoutes(routes, context)
    providerRoutes(routes, context)
  })
  if (umbra.roles.has("api"))
    await app.register(scoped => serveDashboard(scoped as App, { folder: dashboard, basePath }))
  if (umbra.roles.has("webhooks")) await app.register(async scoped => webhookRoute(scoped as App, context))
  await app.ready()
  return app
}

/** Limits the requests in progress: more are rejected while that is still cheap. Returns a function that removes one from the count. */
function boundRequests(app: App, most: number, stopping: Stopping): (raw: ServerResponse) => void {
  let open = 0
  const uncounted = new WeakSet<ServerResponse>()
  app.addHook("onRequest", (request, reply, done) => {
    // A server at its limit is alive: health checks must not take it for dead.
    if (alwaysAnswered.has(request.route.url ?? "")) return done()
    open++
    reply.raw.once("close", () => {
      if (!uncounted.has(reply.raw)) open--
    })
    if (stopping.isStopping) {
      reply.header("connection", "close")
      throw new UmbraError("E612", "The server is shutting down and accepts no more requests.")
    }
    if (open > most)
      throw new UmbraError(
        "E611",
        `The server has reached its limit of ${most} requests in progress. Try again shortly.`,
      )
    done()
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

/** A proxy may pass on paths with the prefix, or without it. */
function withoutBase(url: string, base: string): string {
  if (base === "" || !url.startsWith(base)) return url
  const rest = url.slice(base.length)
  return rest.startsWith("/") ? rest : /^(\?|$)/.test(rest) ? `/${rest}` : url
}

function serverUrl(app: App): string {
  const address = app.server.address()
  if (address === null || typeof address === "string") return String(address)
  const host = address.family === "IPv6" ? `[${address.address}]` : address.address
  return `http://${host}:${address.port}`
}

/** Which methods a path has, for the header Allow of a 405 (RFC 9110). */
class Methods {
  readonly #routes: { readonly pattern: RegExp; readonly methods: readonly string[] }[] = []

  /** Must be called before the first route is added. */
  constructor(app: App) {
    app.addHook("onRoute", ({ url, method }) => {
      const pattern = new RegExp(`^${url.replaceAll(/[.*]/g, "\\$&").replaceAll(/:[^/]+/g, "[^/]+")}$`)
      this.#routes.push({ pattern, methods: [method].flat() })
    })
  }

  at(path: string): string[] {
    const found = this.#routes.filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => methods)
    return [...new Set(found)].sort()
  }
}
