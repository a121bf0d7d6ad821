/** Helpers for the bodies of messages. */
import { z } from "zod"
import type { Json, JsonObject } from "../../core/json.ts"
import { typeName } from "../../template/run/values.ts"
import { finalError, type HandlerError } from "../../worker/fail.ts"
import type { AdapterContext, Message } from "../adapter.ts"

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** An optional name in the config of an adapter. */
export const optionalName = (description: string) => z.string().min(1).optional().describe(description)

/** Returns the value alone, or, with a name, the message with the value under that name. */
export function named(message: Message, name: string | undefined, value: Json): Json {
  if (name === undefined) return value
  if (isObject(message.body)) return { ...message.body, [name]: value }
  throw unfit(`With "as" the message must be a mapping to which "${name}" can be added, not`, message.body)
}

/** The value at a path such as `order.price` or `items.0`; undefined: there is none. */
export function getField(body: Json, path: string): Json | undefined {
  let value: Json | undefined = body
  for (const key of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Record<string, Json>)[key]
  }
  return value
}

/** A message that would fail in the same way on redelivery. */
export function unfit(what: string, value: Json): HandlerError {
  return finalError("E725", `${what} ${describe(value)}.`)
}

const describe = (value: Json) =>
  typeof value === "object"
    ? typeName(value) === "none"
      ? "nothing"
      : `a ${typeName(value)}`
    : `the ${typeName(value)} ${JSON.stringify(value)}`

/**
 * How a source continues reading. The next message is the first one with the position added under
 * `$continue`, so that templates of the config read the same values as at first.
 */
export function continuation(message: Message, cursor: JsonObject): JsonObject {
  if (message.body === null) return { $continue: cursor }
  if (isObject(message.body)) return { ...message.body, $continue: cursor }
  throw unfit(
    "A source needs a message that is a mapping or null, because it adds its position to the message, not",
    message.body,
  )
}

/** The position from which the message continues; undefined: it starts at the beginning. */
export function continuedAt(message: Message): Json | undefined {
  return isObject(message.body) ? message.body.$continue : undefined
}

/** On redelivery the groups may differ: part of a group would be considered written, or be written twice. */
export function refuseGathered({ gathered }: AdapterContext): void {
  if (gathered.length === 0) return
  throw finalError(
    "E725",
    "A route that gathers messages cannot write them exactly once: on redelivery they may be grouped " +
      "differently. Let the route send the list to a queue (outbound), and write it in the route that reads that queue.",
  )
}
