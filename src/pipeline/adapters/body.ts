/** Helpers for the bodies of messages. */
import type { Json, JsonObject } from "../../core/json.ts"
import { typeName } from "../../template/run/values.ts"
import { HandlerError } from "../../worker/fail.ts"
import type { Message } from "../adapter.ts"

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

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
  return new HandlerError(`${what} ${describe(value)}.`, { code: "E725", retryable: false })
}

const describe = (value: Json) =>
  typeof value === "object"
    ? typeName(value) === "none"
      ? "nothing"
      : `a ${typeName(value)}`
    : `the ${typeName(value)} ${JSON.stringify(value)}`
