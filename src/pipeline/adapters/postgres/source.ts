/**
 * `postgres_source`: reads the rows of a query in bounded steps, by keyset pagination: each step queries the
 * rows after the last key. The server bounds the rows of a step in number and bytes, so neither side holds
 * more than that and one row.
 */
import { z } from "zod"
import type { Json } from "../../../core/json.ts"
import type { AdapterSpec } from "../../../definition/adapter.ts"
import { type AdapterContext, defineAdapter, type Message } from "../../adapter.ts"
import { continuation, continuedAt } from "../continuation.ts"
import { type Connections, connectionConfig, identifier } from "./connections.ts"

const config = z.strictObject({
  ...connectionConfig,
  query: z.string().min(1).describe("A select; values go into params, not into its text."),
  params: z.array(z.unknown()).default([]).describe("Values of $1, $2 … in query."),
  key: z
    .union([z.string().min(1), z.array(z.string().min(1)).min(1).max(8)])
    .describe("The column, or columns, that define the order of reading: unique together, and never null."),
  rows_per_step: z
    .int()
    .min(1)
    .max(100_000)
    .default(1_000)
    .describe("Rows read for one message; the next message continues. Default 1000."),
  bytes_per_step: z
    .int()
    .min(1)
    .max(64 * 1024 * 1024)
    .default(1024 * 1024)
    .describe("A step ends after the row that reaches this many bytes. Default 1 MiB."),
  kind: z.string().min(1).default("default").describe('The kind of the emitted rows. Default "default".'),
})

type Config = z.output<typeof config>

const cursorSchema = z.object({ after: z.array(z.string()) })

interface Row {
  readonly document: string
  readonly key: readonly string[]
  readonly found: string
}

export const postgresSourceSpec = {
  type: "postgres_source",
  config,
  emits: ({ kind = "default" }: Partial<Pick<Config, "kind">>) => [kind],
} satisfies AdapterSpec

export const postgresSource = (connections: Connections) =>
  defineAdapter({
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
const isEnd = (rows: readonly Row[], { rows_per_step }: Config) =>
  rows.length < rows_per_step && rows.length === Number(rows[0]?.found)

async function readStep(
  connections: Connections,
  message: Message,
  { config, signal }: AdapterContext<Config>,
): Promise<Row[]> {
  const continued = continuedAt(message)
  const after = continued === undefined ? [] : cursorSchema.parse(continued).after
  const values = [...config.params, ...after, config.rows_per_step, config.bytes_per_step]
  const text = statement(config, after.length > 0)
  return connections.transaction(config, { signal, readOnly: true }, async client => {
    return (await client.query<Row>(text, values)).rows
  })
}

function statement({ query, params, key }: Config, isContinued: boolean): string {
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
