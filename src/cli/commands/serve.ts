/** `umbra serve`: API, webhooks, engine and worker in one process, or some of them, until a signal stops it. */
import { UmbraError } from "../../errors.ts"
import { isPostgres } from "../../journal/location.ts"
import { type FleetWorker, openWorker } from "../../open-worker.ts"
import { type Role, type Roles, readRoles, roleNames } from "../../roles.ts"
import { LocalToken } from "../../server/auth/tokens.ts"
import { type Server, type ServerOptions, startServer } from "../../server/server.ts"
import { openUmbra, type Umbra } from "../../umbra.ts"
import { version } from "../../version.ts"
import { exitCode } from "../exit.ts"
import { loadModules, type Modules } from "../input/modules.ts"
import { type StoreOptions, storeLocation, storeName } from "../input/store.ts"
import { commandLog } from "../output/log.ts"
import {
  checkEngineHeartbeat,
  checkWorkerHeartbeat,
  listenForStop,
  printStopping,
  startShutdown,
} from "../running.ts"
import { inTurn } from "../target/folder-wait.ts"
import { publishServer } from "../target/served.ts"

export interface ServeOptions extends StoreOptions, Modules {
  readonly host: string
  readonly port: number
  readonly redisUrl?: string
  readonly roles?: readonly Role[]
  readonly basePath?: string
}

export async function serve(options: ServeOptions): Promise<number> {
  const roles = readRoles(options.roles)
  const redisUrl = (options.redisUrl ?? process.env.UMBRA_REDIS_URL) || undefined
  const isWorkerAlone = roles.has("worker") && !roles.has("engine")
  if (isWorkerAlone && redisUrl === undefined) throw noTasks()
  checkEngineHeartbeat()
  if (redisUrl !== undefined) checkWorkerHeartbeat()
  const modules = await loadModules(options)
  const location = storeLocation(options)
  const { log } = commandLog()
  const parts = { ...modules, roles: [...roles], log, capturesConsole: true }
  // Before anything else: jobs resume before the engine has opened, and a signal must hand them over.
  const stop = listenForStop()
  const opening = inTurn(() => openUmbra(location, redisUrl === undefined ? parts : { ...parts, redisUrl }), {
    isOver: stop.isSignalled,
  })
  const early = await Promise.race([stop.signalled, opening.then(() => null)])
  if (early !== null) return leaveEarly(opening, early)
  const umbra = await opening
  const { host, port, basePath } = options
  const settings = basePath === undefined ? {} : { basePath: basePath.replace(/\/+$/, "") }
  const { server, hide } = await serveStore(location, { umbra, host, port, log, settings })
  const worker = isWorkerAlone
    ? openWorker(redisUrl!, { ...modules, log, capturesConsole: true, store: await umbra.storeId() })
    : null
  process.stdout.write(`${greeting(server, storeName(location), roles)}\n`)
  printStopping(await stop.signalled)
  return leave({ server, umbra, worker, hide })
}

/** Starts the server, and makes it known to commands on the same folder. If that fails, Umbra is closed. */
export async function serveStore(
  location: string,
  options: Omit<ServerOptions, "version" | "localToken">,
): Promise<Pick<Served, "server" | "hide">> {
  const { umbra } = options
  const localToken = new LocalToken()
  try {
    const server = await startServer({ ...options, version, localToken })
    if (isPostgres(location) || !umbra.roles.has("api")) return { server, hide: async () => {} }
    return { server, hide: await publishServer(location, { url: server.url, token: localToken.text }) }
  } catch (error) {
    await umbra.close()
    throw error
  }
}

/** A signal arrived while the store was being opened. */
async function leaveEarly(opening: Promise<Umbra>, signal: NodeJS.Signals): Promise<number> {
  printStopping(signal)
  startShutdown()
  // An error while opening no longer matters.
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

/** Requests are answered first; handlers that still run after the drain time are handed over and run again elsewhere. */
async function leave({ server, umbra, worker, hide }: Served): Promise<number> {
  const drain = startShutdown()
  await server.close()
  await hide()
  await worker?.close(drain)
  await umbra.close()
  return exitCode.ok
}

function noTasks(): UmbraError {
  return new UmbraError(
    "E620",
    "The role worker gets its tasks from an engine in the same process or from Redis. Add the role engine, or --redis-url.",
  )
}

function greeting({ url, isOpen, issuer }: Server, store: string, roles: Roles): string {
  if (!roles.has("api")) return `Umbra listens on ${url}, with jobs in ${store}, as ${[...roles].join(", ")}.`
  const who = isOpen
    ? 'No API token exists: every program on this machine has access, as owner "local". Create one with `umbra token create`.'
    : `Requests need an API token${issuer === null ? "" : ` or a JWT of ${issuer}`}.`
  const as = roles.size === roleNames.length ? "" : `, as ${[...roles].join(", ")}`
  return `Umbra listens on ${url}, with jobs in ${store}${as}. ${url}/docs describes the API.\n${who}`
}
