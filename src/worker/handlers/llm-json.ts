/** A model's answer as the JSON it was asked for. */
import type { Json, JsonObject } from "../../core/json.ts"
import { checkInput } from "../../definition/input.ts"
import { HandlerError } from "../fail.ts"

export interface JsonAnswer {
  readonly text: string
  /** `true`: any JSON. */
  readonly schema: true | Readonly<Record<string, unknown>>
  readonly finish_reason: string | null
}

export function jsonAnswer({ text, schema, finish_reason }: JsonAnswer): Json {
  const value = parse(text, finish_reason)
  if (schema === true) return value
  const { problems } = value === null ? nullProblem : checkInput(schema as JsonObject, value)
  if (problems === undefined) return value
  const list = problems.map(({ path, message }) => `${path.replace(/^input/, "answer")}: ${message}`)
  throw unusable(`The model's answer does not fit the schema. ${list.slice(0, 5).join(" ")}`, text)
}

/** `checkInput` takes null for "no input"; a model that answers null has not answered. */
const nullProblem = { problems: [{ path: "input", message: "The value is null." }] }

function parse(text: string, finishReason: string | null): Json {
  // Models that have no JSON mode put their JSON between fences.
  const inner = /^\s*```(?:json)?\s*\n([\s\S]*?)\n?\s*```\s*$/.exec(text)?.[1] ?? text
  try {
    return JSON.parse(inner) as Json
  } catch {
    if (finishReason !== "length") throw unusable("The model's answer is not JSON.", text)
    throw new HandlerError(
      "The model's answer ended at max_tokens, in the middle of its JSON. Raise max_tokens.",
      {
        code: "E414",
        retryable: false,
      },
    )
  }
}

/** Another try may give a better answer: models are not deterministic. */
function unusable(message: string, text: string): HandlerError {
  return new HandlerError(message, { code: "E414", retryable: true, details: { answer: text.slice(0, 500) } })
}
