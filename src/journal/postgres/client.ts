/**
 * One connection to PostgreSQL and how a statement is sent over it (database.ts). Statements are named, so that each is parsed once per connection; and they are bounded in
 * time: a half-open connection never answers, and only destroying it ends the statement.
 */
import pg from "pg"
import type { Statement, Value, Values } from "./database.ts"
import { parameters, sql } from "./sql.generated.ts"

export interface ConnectionOptions {
  readonly url: string
  /** How long one statement may take before its connection is destroyed. */
  readonly queryTimeoutMs: number
  readonly connectTimeoutMs: number
}

/** TCP keepalive detects a dead peer while no statement is in flight. */
const KEEP_ALIVE_DELAY_MS = 10_000

const { BOOL, INT2, INT4, INT8, FLOAT8, NUMERIC, JSONB } = pg.types.builtins
const parsers = new Map<number, (text: string) => unknown>([
  [BOOL, text => text === "t"],
  ...[INT2, INT4, INT8, FLOAT8, NUMERIC].map(type => [type, Number] as const),
  [JSONB, JSON.parse],
])
const asText = (text: string): string => text
const types: pg.CustomTypesConfig = { getTypeParser: (type: number) => parsers.get(type) ?? asText }

export function clientConfig(options: ConnectionOptions): pg.ClientConfig {
  return {
    connectionString: options.url,
    application_name: "umbra",
    connectionTimeoutMillis: options.connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
    types,
  }
}

/**
 * A separate client. `statementTimeoutMs` 0 also lifts the server's limit: migrations take as long as they
 * need.
 */
export async function connect(options: ConnectionOptions, statementTimeoutMs: number): Promise<pg.Client> {
  const client = new pg.Client(clientConfig(options))
  // A connection that breaks while idle emits this event; without a listener it would end the process.
  client.on("error", () => {})
  try {
    await client.connect()
    await send(client, "session", { timeoutMs: statementTimeoutMs }, options.connectTimeoutMs)
    return client
  } catch (error) {
    destroy(client)
    throw error
  }
}

export async function send<Row>(
  client: pg.ClientBase,
  statement: Statement,
  values: Values | object,
  timeoutMs: number,
): Promise<Row[]> {
  const given = Symbol.iterator in values ? (values as Values) : named(statement, values)
  const query = {
    name: statement,
    text: sql[statement],
    values: given.map(toText),
    rowMode: "array" as const,
  }
  if (timeoutMs === 0) return toRows(await client.query(query))
  let late = false
  const timer = setTimeout(() => {
    late = true
    destroy(client)
  }, timeoutMs)
  try {
    return toRows(await client.query(query))
  } catch (error) {
    throw late ? new Error(`no answer within ${timeoutMs} ms`, { cause: error }) : error
  } finally {
    clearTimeout(timer)
  }
}

function named(statement: Statement, values: object): Values {
  return (parameters[statement] ?? []).map(name => (values as { readonly [name: string]: Value })[name])
}

function toText(value: Value): string | null {
  if (value === null || value === undefined) return null
  return typeof value === "object" ? `{${value.map(element).join(",")}}` : String(value)
}

function element(value: string | number | null): string | number {
  if (value === null) return "NULL"
  return typeof value === "number" ? value : `"${value.replaceAll(/["\\]/g, "\\$&")}"`
}

function toRows<Row>({ fields, rows }: pg.QueryArrayResult): Row[] {
  const names = fields.map(({ name }) => name.replaceAll(/_([a-z])/g, (_, letter) => letter.toUpperCase()))
  return rows.map(values => {
    const row: Record<string, unknown> = {}
    names.forEach((name, index) => {
      row[name] = values[index]
    })
    return row as Row
  })
}

/** With a statement in flight `end` closes the socket at once, which rejects the statement. */
export function destroy(client: pg.ClientBase): void {
  void (client as pg.Client).end().catch(() => {})
}
