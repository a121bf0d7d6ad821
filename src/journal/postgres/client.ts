/**
 * One connection to PostgreSQL and how a statement is sent over it. Text in, text out (database.ts); named, so that
 * it is parsed once per connection; and bounded in time: a connection that went half-open never answers, and only
 * destroying it gets the statement back.
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

/** TCP keepalive finds a dead peer while nothing is being asked. */
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

/** A client of our own. `statementTimeoutMs` 0 lifts the server's limit too: migrations take what they take. */
export async function connect(options: ConnectionOptions, statementTimeoutMs: number): Promise<pg.Client> {
  const client = new pg.Client(clientConfig(options))
  // A connection that breaks while idle says so here; without a listener that would end the process.
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

/** With a statement under way `end` cuts the socket at once, which rejects it. */
export function destroy(client: pg.ClientBase): void {
  void (client as pg.Client).end().catch(() => {})
}
