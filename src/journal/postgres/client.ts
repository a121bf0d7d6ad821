/**
 * One connection to PostgreSQL and how a statement is sent over it. Parameters and results are text
 * (database.ts); statements are named, so that each is parsed once per connection; and they are bounded in
 * time: a half-open connection never answers, and only destroying it ends the statement.
 */
import pg from "pg"
import type { Parameters, Row, Statement } from "./database.ts"
import { sql } from "./sql.generated.ts"

export interface ConnectionOptions {
  readonly url: string
  /** How long one statement may take before its connection is destroyed. */
  readonly queryTimeoutMs: number
  readonly connectTimeoutMs: number
}

/** TCP keepalive detects a dead peer while no statement is in flight. */
const KEEP_ALIVE_DELAY_MS = 10_000

const rawText = { getTypeParser: () => (value: unknown) => value } as unknown as pg.CustomTypesConfig

export function clientConfig(options: ConnectionOptions): pg.ClientConfig {
  return {
    connectionString: options.url,
    application_name: "umbra",
    connectionTimeoutMillis: options.connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
    types: rawText,
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
    await send(client, "session", [String(statementTimeoutMs)], options.connectTimeoutMs)
    return client
  } catch (error) {
    destroy(client)
    throw error
  }
}

export async function send(
  client: pg.ClientBase,
  statement: Statement,
  parameters: Parameters,
  timeoutMs: number,
): Promise<Row[]> {
  const query = { name: statement, text: sql[statement], values: [...parameters], rowMode: "array" as const }
  if (timeoutMs === 0) return (await client.query<Row & unknown[]>(query)).rows
  let late = false
  const timer = setTimeout(() => {
    late = true
    destroy(client)
  }, timeoutMs)
  try {
    return (await client.query<Row & unknown[]>(query)).rows
  } catch (error) {
    throw late ? new Error(`no answer within ${timeoutMs} ms`, { cause: error }) : error
  } finally {
    clearTimeout(timer)
  }
}

/** With a statement in flight `end` closes the socket at once, which rejects the statement. */
export function destroy(client: pg.ClientBase): void {
  void (client as pg.Client).end().catch(() => {})
}
