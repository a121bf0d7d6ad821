/**
 * Connections to users' databases, shared by the messages of a process. Idle connections close by themselves
 * and do not keep the process alive; a connection that failed, or whose message was aborted, is destroyed and
 * not used again.
 */
import type pg from "pg"
import { z } from "zod"
import { mayPass, sqlState } from "../../../journal/errors.ts"
import { HandlerError } from "../../../worker/fail.ts"
import type { WorkerSettings } from "../../../worker/settings.ts"
import { guardedSocket } from "./guarded-socket.ts"

export const connectionConfig = {
  url: z
    .string()
    .regex(/^postgres(ql)?:\/\//, "A URL is required: postgresql://user:password@host/database")
    .describe('The database: postgresql://user:password@host/database. Write "{{ secrets.NAME }}".'),
  timeout_seconds: z
    .number()
    .positive()
    .max(86_400)
    .default(30)
    .describe("The timeout of one statement, and of connecting. Default 30."),
  connections: z
    .int()
    .min(1)
    .max(100)
    .default(4)
    .describe("The most connections to this database from one process. Default 4."),
}

export type ConnectionConfig = z.output<z.ZodObject<typeof connectionConfig>>

/** URLs may come from templates: beyond this number of pools, the least recently used one is closed. */
const mostPools = 32
/** Gives the server's own timeout time to be reported before this side gives up. */
const patienceMs = 1_000

export class Connections {
  readonly #socket: ReturnType<typeof guardedSocket>
  readonly #pools = new Map<string, pg.Pool>()

  constructor({ allowPrivateAddresses }: Pick<WorkerSettings, "allowPrivateAddresses">) {
    this.#socket = guardedSocket(allowPrivateAddresses)
  }

  /** Runs `work` in one transaction: all of its changes are committed, or none. */
  async transaction<T>(
    config: ConnectionConfig,
    { signal, readOnly = false }: { readonly signal: AbortSignal; readonly readOnly?: boolean },
    work: (client: pg.PoolClient) => Promise<T>,
  ): Promise<T> {
    signal.throwIfAborted()
    let client: pg.PoolClient | undefined
    let isWell = false
    const abort = () => void (client as pg.Client | undefined)?.end().catch(() => {})
    signal.addEventListener("abort", abort, { once: true })
    try {
      // Loaded on first use: most processes never use it.
      client = await this.#pool(config, (await import("pg")).default.Pool).connect()
      signal.throwIfAborted()
      await client.query(`begin${readOnly ? " read only" : ""}`)
      const timeout = String(Math.ceil(config.timeout_seconds * 1000))
      await client.query("select set_config('statement_timeout', $1, true)", [timeout])
      const result = await work(client)
      await client.query("commit")
      isWell = true
      return result
    } catch (error) {
      throw signal.aborted ? signal.reason : toFault(config.url, error)
    } finally {
      signal.removeEventListener("abort", abort)
      client?.release(!isWell)
    }
  }

  #pool(config: ConnectionConfig, Pool: typeof pg.Pool): pg.Pool {
    const { url, timeout_seconds, connections } = config
    const key = JSON.stringify([url, timeout_seconds, connections])
    const pool = this.#pools.get(key) ?? this.#open(config, Pool)
    // The most recently used are last.
    this.#pools.delete(key)
    this.#pools.set(key, pool)
    for (const [oldest, unused] of this.#pools) {
      if (this.#pools.size <= mostPools) break
      this.#pools.delete(oldest)
      void unused.end().catch(() => {})
    }
    return pool
  }

  #open({ url, timeout_seconds, connections }: ConnectionConfig, Pool: typeof pg.Pool): pg.Pool {
    const timeoutMs = Math.ceil(timeout_seconds * 1000)
    const pool = new Pool({
      ...connectionTarget(url),
      application_name: "umbra pipeline",
      max: connections,
      connectionTimeoutMillis: timeoutMs,
      query_timeout: timeoutMs + patienceMs,
      keepAlive: true,
      allowExitOnIdle: true,
      stream: this.#socket,
    })
    // An error of an idle connection concerns no message. Without a listener it would end the process.
    pool.on("error", () => {})
    pool.on("connect", client => client.on("error", () => {}))
    return pool
  }
}

/**
 * Host, user and options of the connection. The driver gets no URL: for what a URL lacks it would use
 * PGPASSWORD, PGUSER and ~/.pgpass of this process, and it reads the files that sslkey, sslcert and
 * sslrootcert name. The author of a pipeline must have access to neither.
 */
function connectionTarget(text: string): pg.PoolConfig {
  const url = URL.canParse(text) ? new URL(text) : null
  const { host, port, sslmode, ssl, ...unknown } = Object.fromEntries(url?.searchParams ?? [])
  if (url === null || Object.keys(unknown).length > 0)
    throw new HandlerError(
      `The url is not a PostgreSQL URL, or contains more than postgresql://user:password@host:port/database?sslmode=… may: ` +
        `${Object.keys(unknown).join(", ") || "it cannot be read"}.`,
      { code: "E403", retryable: false },
    )
  const user = decodeURIComponent(url.username) || "postgres"
  const password = decodeURIComponent(url.password)
  return {
    user,
    // The driver treats empty text as absent: hence a function, and a blank.
    password: () => password,
    options: " ",
    host: host || decodeURIComponent(url.hostname).replace(/^\[(.+)\]$/, "$1") || "localhost",
    port: Number(port || url.port || 5432),
    database: decodeURIComponent(url.pathname.slice(1)) || user,
    ssl: sslOptions(sslmode ?? ssl ?? "disable"),
  }
}

function sslOptions(mode: string): pg.PoolConfig["ssl"] {
  if (["disable", "false", "0"].includes(mode)) return false
  return mode === "no-verify" ? { rejectUnauthorized: false } : true
}

function toFault(url: string, error: unknown): unknown {
  if (error instanceof HandlerError) return error
  const state = sqlState(error)
  const reason = error instanceof Error ? error.message : String(error)
  if (state === null) {
    return new HandlerError(`${label(url)} did not answer: ${reason}. Check that it is running.`, {
      code: "E408",
      retryable: true,
      cause: error,
    })
  }
  const passes = mayPass(state)
  const advice = passes
    ? ""
    : " Nothing was changed. Correct the adapter's config, the data or the permissions."
  return new HandlerError(`${label(url)}: ${reason} (SQLSTATE ${state}).${advice}`, {
    code: passes ? "E410" : "E411",
    retryable: passes,
    details: { sql_state: state },
  })
}

/** Without user and password. */
function label(url: string): string {
  if (!URL.canParse(url)) return "PostgreSQL"
  const { host, pathname } = new URL(url)
  return `PostgreSQL at ${host}${pathname}`
}

export const identifier = (name: string) => `"${name.replaceAll('"', '""')}"`
