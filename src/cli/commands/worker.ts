/** `umbra worker`: runs nodes for the engines of a fleet. It needs Redis, and no database. */
import { createServer, type Server } from "node:http"
import { UmbraError } from "../../errors.ts"
import { type FleetWorker, openWorker } from "../../open-worker.ts"
import { cannotListen } from "../../server/http/limits.ts"
import { exitCode } from "../exit.ts"
import { loadModules, type Modules } from "../input/modules.ts"
import { commandLog } from "../output/log.ts"
import { checkWorkerHeartbeat, listenForStop, printStopping, startShutdown } from "../running.ts"

export interface WorkerCommandOptions extends Modules {
  readonly redisUrl?: string
  readonly store?: string
  readonly queues?: readonly string[]
  readonly concurrency?: number
  readonly prefetch?: number
  /** The port of `/health` and `/ready`; absent: not served. */
  readonly port?: number
  readonly host: string
}

export async function worker(options: WorkerCommandOptions): Promise<number> {
  const { store, queues, concurrency, prefetch, redisUrl = process.env.UMBRA_REDIS_URL } = options
  if (!redisUrl)
    throw new UmbraError(
      "E620",
      "A worker needs a Redis address: --redis-url redis://HOST, or UMBRA_REDIS_URL.",
    )
  checkWorkerHeartbeat()
  const modules = await loadModules(options)
  const { signalled } = listenForStop()
  const opened = openWorker(redisUrl, {
    ...modules,
    log: commandLog().log,
    capturesConsole: true,
    store,
    queues,
    worker: concurrency === undefined ? {} : { concurrency },
    redis: prefetch === undefined ? {} : { prefetch },
  })
  // Before the first await: a health check then gets the reason why the worker takes no tasks.
  const { bound } = opened
  const health = await startHealthServer(opened, options)
  const greeted = bound.then(async id => {
    await opened.ready
    process.stdout.write(`${greeting(opened, redisUrl, id)}\n`)
  })
  const signal = await Promise.race([signalled, greeted.then(() => signalled)]).catch(async error => {
    await opened.close({ drainSeconds: 0 })
    throw error
  })
  printStopping(signal)
  await opened.close(startShutdown())
  health?.close()
  health?.closeAllConnections()
  return exitCode.ok
}

async function startHealthServer(
  opened: FleetWorker,
  { host, port }: WorkerCommandOptions,
): Promise<Server | null> {
  if (port === undefined) return null
  try {
    return await serveHealth(opened, host, port)
  } catch (error) {
    await opened.close({ drainSeconds: 0 })
    throw error
  }
}

function greeting({ id, queues }: FleetWorker, redisUrl: string, store: string): string {
  const { host } = new URL(redisUrl)
  return `Umbra worker ${id} takes tasks of store ${store} from Redis at ${host}, for ${queues.join(", ")}.`
}

/** HTTP health checks of a worker: `/health` (it answers) and `/ready` (it accepts tasks). A worker has no other HTTP. */
function serveHealth(worker: FleetWorker, host: string, port: number): Promise<Server> {
  const server = createServer((request, response) => {
    const { id, notReady: reason, running, refused } = worker
    const ready = reason === null
    const path = request.url?.split("?")[0]
    const status = path === "/health" ? 200 : path === "/ready" ? (ready ? 200 : 503) : 404
    response.writeHead(status, { "content-type": "application/json" })
    response.end(
      status === 404 ? "{}" : JSON.stringify({ id, ready, ...(ready ? {} : { reason }), running, refused }),
    )
  })
  return new Promise((resolve, reject) => {
    server.once("error", error => reject(cannotListen(host, port, error)))
    server.listen(port, host, () => resolve(server))
  })
}
