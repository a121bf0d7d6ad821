/** Parses a model's answer as the JSON that was requested. */
import { setTimeout } from "node:timers/promises"
import type { Json, JsonObject } from "../../core/json.ts"
import { inputChecks } from "../../definition/index.ts"
import { UmbraError } from "../../errors.ts"
import { HandlerError } from "../fail.ts"

export interface JsonAnswer {
  readonly text: string
  /** `true`: any JSON. */
  readonly schema: true | Readonly<Record<string, unknown>>
  readonly finish_reason: string | null
  /** The owner whose time budget for checks is used. */
  readonly owner: string
  readonly signal: AbortSignal
}

export async function jsonAnswer(answer: JsonAnswer): Promise<Json> {
  const { text, schema, finish_reason } = answer
  const value = parse(text, finish_reason)
  if (schema === true) return value
  const { problems } = value === null ? nullProblem : await check(value, answer)
  if (problems === undefined) return value
  const list = problems.map(({ path, message }) => `${path.replace(/^input/, "answer")}: ${message}`)
  throw unusable(`The model's answer does not match the schema. ${list.slice(0, 5).join(" ")}`, text)
}

/** The answer was paid for: when the time budget for checks is used up, it is checked later. */
async function check(value: Json, { schema, owner, signal }: JsonAnswer) {
  for (;;) {
    try {
      return await inputChecks.check(schema as JsonObject, value, { owner })
    } catch (error) {
      if (!(error instanceof UmbraError && error.code === "E614")) throw error
      await setTimeout(1000 * Number(error.details.retry_after), undefined, { signal })
    }
  }
}

/** A check treats null as "no input"; a model that answers null has not answered. */
const nullProblem = { problems: [{ path: "input", message: "The value is null." }] }

function parse(text: string, finishReason: string | null): Json {
  // Models without a JSON mode put their JSON between fences.
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

/** Another try may return a better answer: models are not deterministic. */
function unusable(message: string, text: string): HandlerError {
  return new HandlerError(message, { code: "E414", retryable: true, details: { answer: text.slice(0, 500) } })
}
