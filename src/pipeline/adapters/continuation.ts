/**
 * How a source reads on. The message that does is the one that began, with its place added under `$continue`, so that
 * templates of the config find in it what they found at first.
 */
import type { Json, JsonObject } from "../../core/json.ts"
import type { Message } from "../adapter.ts"
import { isObject, unfit } from "./body.ts"

/** The body of the message that reads on. */
export function continuation(message: Message, cursor: JsonObject): JsonObject {
  if (message.body === null) return { $continue: cursor }
  if (isObject(message.body)) return { ...message.body, $continue: cursor }
  throw unfit(
    "A source needs a message that is a mapping or null, since its place is added to it, not",
    message.body,
  )
}

/** Where the message goes on; undefined: it begins. */
export function continuedAt(message: Message): Json | undefined {
  return isObject(message.body) ? message.body.$continue : undefined
}
