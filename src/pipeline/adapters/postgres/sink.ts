/**
 * `postgres_sink`: writes rows to a table, all rows of a message in one transaction. Redelivery changes
 * nothing: either the rows have a key of their own (`on_conflict`), or a column stores the message that each
 * row came from.
 */
import { z } from "zod"
import type { Json, JsonObject } from "../../../core/json.ts"
import type { AdapterSpec } from "../../../definition/adapter.ts"
import { defineAdapter } from "../../adapter.ts"
import { isObject, unfit } from "../body.ts"
import { refuseGathered } from "../gathered.ts"
import { type Connections, connectionConfig, identifier } from "./connections.ts"

const columns = z.array(z.string().min(1)).min(1).max(32)

const config = z
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
    idempotency_column: z
      .string()
      .min(1)
      .optional()
      .describe(
        "For rows without a key: a text column with a unique index, which stores the origin of the row.",
      ),
  })
  .refine(given => (given.on_conflict === undefined) !== (given.idempotency_column === undefined), {
    message:
      "Give either on_conflict or idempotency_column: without them a message delivered twice is stored twice",
    path: ["on_conflict"],
  })

type Config = z.output<typeof config>

export const postgresSinkSpec = {
  type: "postgres_sink",
  config,
  writesOnce: ({ idempotency_column }: Pick<Config, "idempotency_column">) =>
    idempotency_column !== undefined,
} satisfies AdapterSpec

export const postgresSink = (connections: Connections) =>
  defineAdapter({
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
  { on_conflict, idempotency_column }: Config,
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
  const groups = new Map<string, JsonObject[]>()
  for (const row of rows) {
    const shape = JSON.stringify(Object.keys(row).sort())
    const group = groups.get(shape)
    if (group === undefined) groups.set(shape, [row])
    else group.push(row)
  }
  return groups
}

function insertion({ table, on_conflict, idempotency_column }: Config, rows: readonly JsonObject[]): string {
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
