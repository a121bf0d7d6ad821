/**
 * How a source continues reading. The next message is the first one with the position added under
 * `$continue`, so that templates of the config read the same values as at first.
 */
import type { Json, JsonObject } from "../../core/json.ts"
import type { Message } from "../adapter.ts"
import { isObject, unfit } from "./body.ts"

/** The body of the message that continues reading. */
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
