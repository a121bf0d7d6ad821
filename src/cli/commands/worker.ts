/** `umbra worker`: runs nodes for the engines of a fleet. It needs Redis, and no database. */
import type { Server } from "node:http"
import { UmbraError } from "../../errors.ts"
import { type FleetWorker, openWorker } from "../../open-worker.ts"
import { exitCode } from "../exit.ts"
import { checkWorkerPace } from "../heartbeat-check.ts"
import { commandLog } from "../output/log.ts"
import { beginToLeave, sayThatItStops, toldToStop } from "../stop.ts"
import { serveHealth } from "../worker-health.ts"
import { loadUserAdapters } from "./adapters.ts"
import { loadUserHandlers, loadUserProviders } from "./handlers.ts"

export interface WorkerCommandOptions {
  readonly redisUrl?: string
  readonly store?: string
  readonly handlers?: readonly string[]
  readonly adapters?: readonly string[]
  readonly providers?: readonly string[]
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
  checkWorkerPace()
  const handlers = await loadUserHandlers(options.handlers ?? [])
  const adapters = await loadUserAdapters(options)
  const providers = await loadUserProviders(options)
  const { signalled } = toldToStop()
  const opened = openWorker(redisUrl, {
    handlers,
    adapters,
    providers,
    log: commandLog().log,
    store,
    queues,
    ...(concurrency === undefined ? {} : { worker: { concurrency } }),
    ...(prefetch === undefined ? {} : { redis: { prefetch } }),
  })
  // Before the first await: a health check then gets the reason why the worker takes no tasks.
  const { bound } = opened
  const health = await healthOf(opened, options)
  const greeted = bound.then(id => void process.stdout.write(`${greeting(opened, redisUrl, id)}\n`))
  const signal = await Promise.race([signalled, greeted.then(() => signalled)]).catch(async error => {
    await opened.close({ drainSeconds: 0 })
    throw error
  })
  sayThatItStops(signal)
  await opened.close(beginToLeave())
  health?.close()
  health?.closeAllConnections()
  return exitCode.ok
}

async function healthOf(opened: FleetWorker, { host, port }: WorkerCommandOptions): Promise<Server | null> {
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
