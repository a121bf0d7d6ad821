/** `postgres_source` and `postgres_sink`: adapters for databases of users. */

import { isIP, isIPv6, Socket } from "node:net"
import type pg from "pg"
import { z } from "zod"
import type { Json, JsonObject } from "../../core/json.ts"
import { groupBy } from "../../core/maps.ts"
import type { AdapterSpec } from "../../definition/adapter.ts"
import { integerField, secondsField } from "../../definition/config-fields.ts"
import { mayPass, sqlState } from "../../journal/errors.ts"
import { finalError, HandlerError } from "../../worker/fail.ts"
import { AddressPolicy, checkHost, guardedLookup } from "../../worker/http/addresses.ts"
import type { WorkerSettings } from "../../worker/settings.ts"
import { type AdapterContext, defineBuiltInAdapter, type Message } from "../adapter.ts"
import { continuation, continuedAt, isObject, optionalName, refuseGathered, unfit } from "./body.ts"

const connectionConfig = {
  url: z
    .string()
    .regex(/^postgres(ql)?:\/\//, "A URL is required: postgresql://user:password@host/database")
    .describe('The database: postgresql://user:password@host/database. Write "{{ secrets.NAME }}".'),
  timeout_seconds: secondsField(86_400, 30, "The timeout of one statement, and of connecting. Default 30."),
  connections: integerField(100, 4, "The most connections to this database from one process. Default 4."),
}

type ConnectionConfig = z.output<z.ZodObject<typeof connectionConfig>>

/** URLs may come from templates: beyond this number of pools, the least recently used one is closed. */
const mostPools = 32
/** Gives the server's own timeout time to be reported before this side gives up. */
const patienceMs = 1_000

/**
 * Connections to users' databases, shared by the messages of a process. Idle connections close by themselves
 * and do not keep the process alive; a connection that failed, or whose message was aborted, is destroyed and
 * not used again.
 */
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
    throw finalError(
      "E403",
      `The url is not a PostgreSQL URL, or contains more than postgresql://user:password@host:port/database?sslmode=… may: ` +
        `${Object.keys(unknown).join(", ") || "it cannot be read"}.`,
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

const identifier = (name: string) => `"${name.replaceAll('"', '""')}"`

/**
 * A socket that connects only to addresses that the operator allows, for a driver that opens its own
 * connections.
 */
type Allowed = WorkerSettings["allowPrivateAddresses"]

/** The driver connects by port and host, or by the path of a local socket. */
function guardedSocket(allowed: Allowed): () => Socket {
  const policy = new AddressPolicy(allowed)
  const lookup = guardedLookup(policy)
  return () => {
    const socket = new Socket()
    const connect = socket.connect.bind(socket)
    const guarded = (place: number | string, host = "localhost") => {
      const refused = refusal(place, host, policy, allowed)
      // Thrown here, the error would surface inside the driver, which does not expect it.
      if (refused !== undefined) process.nextTick(() => socket.destroy(refused))
      else if (typeof place === "string") connect(place)
      else connect({ port: place, host, lookup })
      return socket
    }
    return Object.assign(socket, { connect: guarded }) as Socket
  }
}

function refusal(
  place: number | string,
  host: string,
  policy: AddressPolicy,
  allowed: Allowed,
): Error | undefined {
  if (typeof place === "string") return allowed === true ? undefined : localSocket(place)
  if (isIP(host) === 0) return undefined
  try {
    checkHost(new URL(`http://${isIPv6(host) ? `[${host}]` : host}`), policy)
    return undefined
  } catch (error) {
    return error as Error
  }
}

function localSocket(path: string): HandlerError {
  return finalError(
    "E412",
    `${path} is a socket of this machine, and this process may not connect to it. To allow it, the operator sets UMBRA_ALLOW_PRIVATE_ADDRESSES=1.`,
  )
}

/**
 * `postgres_source`: reads the rows of a query in bounded steps, by keyset pagination: each step queries the
 * rows after the last key. The server bounds the rows of a step in number and bytes, so neither side holds
 * more than that and one row.
 */
const sourceConfig = z.strictObject({
  ...connectionConfig,
  query: z.string().min(1).describe("A select; values go into params, not into its text."),
  params: z.array(z.unknown()).default([]).describe("Values of $1, $2 … in query."),
  key: z
    .union([z.string().min(1), z.array(z.string().min(1)).min(1).max(8)])
    .describe("The column, or columns, that define the order of reading: unique together, and never null."),
  rows_per_step: integerField(
    100_000,
    1_000,
    "Rows read for one message; the next message continues. Default 1000.",
  ),
  bytes_per_step: integerField(
    64 * 1024 * 1024,
    1024 * 1024,
    "A step ends after the row that reaches this many bytes. Default 1 MiB.",
  ),
  kind: z.string().min(1).default("default").describe('The kind of the emitted rows. Default "default".'),
})

type SourceConfig = z.output<typeof sourceConfig>

const cursorSchema = z.object({ after: z.array(z.string()) })

interface Row {
  readonly document: string
  readonly key: readonly string[]
  readonly found: string
}

export const postgresSourceSpec = {
  type: "postgres_source",
  config: sourceConfig,
  emits: ({ kind = "default" }: Partial<Pick<SourceConfig, "kind">>) => [kind],
} satisfies AdapterSpec

export const postgresSource = (connections: Connections) =>
  defineBuiltInAdapter({
    ...postgresSourceSpec,
    async process(message, context) {
      const { config } = context
      const rows = await readStep(connections, message, context)
      for (const { document } of rows) context.emit(JSON.parse(document) as Json, { kind: config.kind })
      const last = rows.at(-1)
      if (last === undefined || isEnd(rows, config)) return
      context.continueWith(continuation(message, { after: last.key }))
    },
  })

/** Fewer rows than requested were found, and none of them was left out for its size. */
const isEnd = (rows: readonly Row[], { rows_per_step }: SourceConfig) =>
  rows.length < rows_per_step && rows.length === Number(rows[0]?.found)

async function readStep(
  connections: Connections,
  message: Message,
  { config, signal }: AdapterContext<SourceConfig>,
): Promise<Row[]> {
  const continued = continuedAt(message)
  const after = continued === undefined ? [] : cursorSchema.parse(continued).after
  const values = [...config.params, ...after, config.rows_per_step, config.bytes_per_step]
  const text = statement(config, after.length > 0)
  return connections.transaction(config, { signal, readOnly: true }, async client => {
    return (await client.query<Row>(text, values)).rows
  })
}

function statement({ query, params, key }: SourceConfig, isContinued: boolean): string {
  const columns = [key].flat().map(name => `source.${identifier(name)}`)
  let next = params.length
  const place = () => `$${++next}`
  const behind = isContinued ? `where (${columns.join()}) > (${columns.map(place).join()})` : ""
  return `
    select document, key, found from (
      select document, key, position, count(*) over () as found,
        sum(octet_length(document)) over (order by position) - octet_length(document) as bytes_before
      from (
        select to_jsonb(source)::text as document, array[${columns.map(column => `${column}::text`).join()}] as key,
          row_number() over (order by ${columns.join()}) as position
        from (
          ${query.replace(/[;\s]+$/, "")}
        ) as source ${behind} order by ${columns.join()} limit ${place()}
      ) as step
    ) as bounded where bytes_before < ${place()}::bigint order by position`
}

/**
 * `postgres_sink`: writes rows to a table, all rows of a message in one transaction. Redelivery changes
 * nothing: either the rows have a key of their own (`on_conflict`), or a column stores the message that each
 * row came from.
 */
const columns = z.array(z.string().min(1)).min(1).max(32)

const sinkConfig = z
  .strictObject({
    ...connectionConfig,
    table: z.string().min(1).describe("The table: name, or schema.name."),
    rows: z
      .unknown()
      .optional()
      .describe("A mapping from columns to values, or a list of them. Default: the message."),
    on_conflict: z
      .strictObject({
        columns: columns.describe("Columns with a unique index."),
        do: z
          .enum(["update", "nothing"])
          .default("update")
          .describe("For an existing row: update it (default), or nothing."),
      })
      .optional()
      .describe(
        "For rows that have a unique key. If two rows of one message have the same key, the last counts.",
      ),
    idempotency_column: optionalName(
      "For rows without a key: a text column with a unique index, which stores the origin of the row.",
    ),
  })
  .refine(given => (given.on_conflict === undefined) !== (given.idempotency_column === undefined), {
    message:
      "Give either on_conflict or idempotency_column: without them a message delivered twice is stored twice",
    path: ["on_conflict"],
  })

type SinkConfig = z.output<typeof sinkConfig>

export const postgresSinkSpec = {
  type: "postgres_sink",
  config: sinkConfig,
  writesOnce: ({ idempotency_column }: Pick<SinkConfig, "idempotency_column">) =>
    idempotency_column !== undefined,
} satisfies AdapterSpec

export const postgresSink = (connections: Connections) =>
  defineBuiltInAdapter({
    ...postgresSinkSpec,
    async process(message, context) {
      const { config, signal, idempotencyKey } = context
      if (config.idempotency_column !== undefined) refuseGathered(context)
      const rows = readRows(config.rows === undefined ? message.body : (config.rows as Json))
      const statements = [...alike(keyed(rows, config, idempotencyKey)).values()]
      if (statements.length === 0) return message.body
      await connections.transaction(config, { signal }, async client => {
        for (const group of statements) await client.query(insertion(config, group), [JSON.stringify(group)])
      })
      return message.body
    },
  })

function readRows(given: Json): readonly JsonObject[] {
  const rows: readonly Json[] = Array.isArray(given) ? given : [given]
  return rows.map(row => {
    if (isObject(row) && Object.keys(row).length > 0) return row
    throw unfit("postgres_sink needs a mapping from columns to values, or a list of them, not", row)
  })
}

function keyed(
  rows: readonly JsonObject[],
  { on_conflict, idempotency_column }: SinkConfig,
  key: string,
): readonly JsonObject[] {
  if (idempotency_column !== undefined) {
    return rows.map((row, index) => ({ ...row, [idempotency_column]: `${key}/${index}` }))
  }
  // A statement must not change a row twice.
  const byKey = new Map<string, JsonObject>()
  for (const row of rows) byKey.set(JSON.stringify(on_conflict?.columns.map(name => row[name] ?? null)), row)
  return [...byKey.values()]
}

/** Rows with the same columns go in one statement: a column that a row does not have gets its default. */
function alike(rows: readonly JsonObject[]): Map<string, JsonObject[]> {
  return groupBy(rows, row => JSON.stringify(Object.keys(row).sort()))
}

function insertion(
  { table, on_conflict, idempotency_column }: SinkConfig,
  rows: readonly JsonObject[],
): string {
  const target = table.split(".").map(identifier).join(".")
  const names = Object.keys(rows[0]!)
  const list = names.map(identifier).join()
  const unique = on_conflict?.columns ?? [idempotency_column!]
  const changed = names.filter(name => !unique.includes(name)).map(identifier)
  const updates = on_conflict?.do === "update" && changed.length > 0
  const action = updates
    ? `update set ${changed.map(name => `${name} = excluded.${name}`).join()}`
    : "nothing"
  return `insert into ${target} (${list}) select ${list} from jsonb_populate_recordset(null::${target}, $1::jsonb)
    on conflict (${unique.map(identifier).join()}) do ${action}`
}
