/** `umbra serve`: API, webhooks, engine and worker in one process, or some of them, until it is told to stop. */
import { UmbraError } from "../../errors.ts"
import { isPostgres } from "../../journal/location.ts"
import { type FleetWorker, openWorker } from "../../open-worker.ts"
import { type Role, type Roles, readRoles, roleNames } from "../../roles.ts"
import { LocalToken } from "../../server/auth/tokens.ts"
import { type Server, startServer } from "../../server/server.ts"
import { openUmbra, type Umbra } from "../../umbra.ts"
import { version } from "../../version.ts"
import { exitCode } from "../exit.ts"
import { checkEnginePace, checkWorkerPace } from "../heartbeat-check.ts"
import { type StoreOptions, storeLocation, storeName } from "../input/store.ts"
import { commandLog } from "../output/log.ts"
import { beginToLeave, sayThatItStops, toldToStop } from "../stop.ts"
import { inTurn } from "../target/folder-wait.ts"
import { publishServer } from "../target/served.ts"
import { loadUserAdapters } from "./adapters.ts"
import { loadUserHandlers, loadUserProviders } from "./handlers.ts"

export interface ServeOptions extends StoreOptions {
  readonly host: string
  readonly port: number
  readonly handlers?: readonly string[]
  readonly adapters?: readonly string[]
  readonly providers?: readonly string[]
  readonly redisUrl?: string
  readonly roles?: readonly Role[]
}

export async function serve(options: ServeOptions): Promise<number> {
  const roles = readRoles(options.roles)
  const redisUrl = (options.redisUrl ?? process.env.UMBRA_REDIS_URL) || undefined
  const isWorkerAlone = roles.has("worker") && !roles.has("engine")
  if (isWorkerAlone && redisUrl === undefined) throw noTasks()
  checkEnginePace()
  if (redisUrl !== undefined) checkWorkerPace()
  const handlers = await loadUserHandlers(options.handlers ?? [])
  const adapters = await loadUserAdapters(options)
  const providers = await loadUserProviders(options)
  const location = storeLocation(options)
  const { log } = commandLog()
  const parts = { handlers, adapters, providers, roles: [...roles], log }
  // First of all: jobs go on before the engine is open, and whoever is told to stop hands them over.
  const stop = toldToStop()
  const opening = inTurn(() => openUmbra(location, redisUrl === undefined ? parts : { ...parts, redisUrl }), {
    isOver: stop.isTold,
  })
  const early = await Promise.race([stop.signalled, opening.then(() => null)])
  if (early !== null) return leaveEarly(opening, early)
  const umbra = await opening
  const { host, port } = options
  const localToken = new LocalToken()
  let server: Server
  let hide = async () => {}
  try {
    server = await startServer({ umbra, host, port, log, version, localToken })
    if (!isPostgres(location) && roles.has("api"))
      hide = await publishServer(location, { url: server.url, token: localToken.text })
  } catch (error) {
    await umbra.close()
    throw error
  }
  const worker = isWorkerAlone
    ? openWorker(redisUrl!, { handlers, adapters, providers, log, store: await umbra.storeId() })
    : null
  process.stdout.write(`${greeting(server, storeName(location), roles)}\n`)
  sayThatItStops(await stop.signalled)
  return leave({ server, umbra, worker, hide })
}

/** It was told to stop while it opened its store. */
async function leaveEarly(opening: Promise<Umbra>, signal: NodeJS.Signals): Promise<number> {
  sayThatItStops(signal)
  beginToLeave()
  // Whatever kept it from opening is of no interest any more.
  const umbra = await opening.catch(() => null)
  await umbra?.close()
  return exitCode.ok
}

interface Served {
  readonly server: Server
  readonly umbra: Umbra
  readonly worker: FleetWorker | null
  readonly hide: () => Promise<void>
}

/** Whoever has an answer has it; what still runs after the drain time is handed over, and runs again elsewhere. */
async function leave({ server, umbra, worker, hide }: Served): Promise<number> {
  const drain = beginToLeave()
  await server.close()
  await hide()
  await worker?.close(drain)
  await umbra.close()
  return exitCode.ok
}

function noTasks(): UmbraError {
  return new UmbraError(
    "E620",
    "The role worker has its tasks from the engine in the same process or from Redis: add the role engine, or --redis-url.",
  )
}

function greeting({ url, isOpen, issuer }: Server, store: string, roles: Roles): string {
  if (!roles.has("api")) return `Umbra listens on ${url}, with jobs in ${store}, as ${[...roles].join(", ")}.`
  const who = isOpen
    ? 'There is no API token: everything on this machine may use it, as owner "local". `umbra token create` makes one.'
    : `Requests need an API token${issuer === null ? "" : ` or a JWT of ${issuer}`}.`
  const as = roles.size === roleNames.length ? "" : `, as ${[...roles].join(", ")}`
  return `Umbra listens on ${url}, with jobs in ${store}${as}. ${url}/docs explains the API.\n${who}`
}
