/** `umbra serve`: API, webhooks, engine and worker in one process, or some of them, until it is told to stop. */
import { setFlagsFromString } from "node:v8"
import { engineSettings } from "../engine/settings.ts"
import { UmbraError } from "../errors.ts"
import { isPostgres } from "../journal/location.ts"
import { type Role, type Roles, roleNames, rolesOf } from "../roles.ts"
import { type Server, startServer } from "../server/server.ts"
import { LocalToken } from "../server/tokens.ts"
import { openUmbra, type Umbra } from "../umbra.ts"
import { version } from "../version.ts"
import { exitCode } from "./exit.ts"
import { loadUserHandlers, loadUserProviders } from "./handlers.ts"
import { commandLog } from "./log.ts"
import { publishServer } from "./place/served.ts"
import { type StoreOptions, storeLocation, storeName } from "./store.ts"

export interface ServeOptions extends StoreOptions {
  readonly host: string
  readonly port: number
  readonly handlers?: readonly string[]
  readonly providers?: readonly string[]
  readonly roles?: readonly Role[]
}

/** From the signal until the process is gone, whatever happens. Answers have 2 s of it, running handlers the most. */
const LEAVE_MS = 9500
const DRAIN_SECONDS = 6

export async function serve(options: ServeOptions): Promise<number> {
  const roles = rolesOf(options.roles)
  mustHaveTasks(roles)
  const handlers = await loadUserHandlers(options.handlers ?? [])
  const providers = await loadUserProviders(options)
  const location = storeLocation(options)
  // The embedded database is compiled again where it is busy, function by function. Several at once take 70 MB in passing,
  // most of which stays with the process in pieces; one at a time is fast enough.
  if (!isPostgres(location)) setFlagsFromString("--wasm-num-compilation-tasks=1")
  const { log } = commandLog()
  const umbra = await openUmbra(location, {
    handlers,
    providers,
    roles: [...roles],
    log,
    engine: { drainSeconds: Math.min(engineSettings().drainSeconds, DRAIN_SECONDS) },
  })
  const { host, port } = options
  const told = toldToStop()
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
  process.stdout.write(`${greeting(server, storeName(location), roles)}\n`)
  const signal = await told
  process.stderr.write(`umbra: ${signal}, stopping\n`)
  return leave(server, umbra, hide)
}

/** Whoever has an answer has it; what still runs after the drain time is handed over, and runs again elsewhere. */
async function leave(server: Server, umbra: Umbra, hide: () => Promise<void>): Promise<number> {
  setTimeout(() => process.exit(exitCode.failed), LEAVE_MS).unref()
  await server.close()
  await hide()
  await umbra.close()
  return exitCode.ok
}

function toldToStop(): Promise<NodeJS.Signals> {
  return new Promise(resolve => {
    for (const signal of ["SIGTERM", "SIGINT"] as const)
      process.once(signal, () => {
        resolve(signal)
        // A second Ctrl-C is a person who does not want to wait.
        process.once(signal, () => process.exit(exitCode.failed))
      })
  })
}

/** A worker of this process is given its tasks by the engine beside it. */
function mustHaveTasks(roles: Roles): void {
  if (roles.has("engine") || !roles.has("worker")) return
  throw new UmbraError(
    "E620",
    "The role worker runs nodes for the engine in the same process: add the role engine, or leave worker out.",
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
