/** Checks inputs in a thread, some at a time, within a deadline (input-checks.ts). */
import { parentPort } from "node:worker_threads"
import type { Json, JsonObject } from "../core/json.ts"
import { DeadlineError, withinDeadline } from "./deadline.ts"
import { InputChecker, refused } from "./input.ts"
import type { InputProblem } from "./schema-checks.ts"
import { StepsSpentError } from "./schema-checks.ts"
import { threadMatchers } from "./schema-matchers.ts"

export interface CheckBatch {
  /** For all checks of the batch. */
  readonly milliseconds: number
  /** Schemas that the thread does not have yet, as JSON. */
  readonly schemas: readonly (readonly [id: number, text: string])[]
  /** Forget the schemas sent before. */
  readonly isFirst: boolean
  readonly checks: readonly { readonly schema: number; readonly text: string; readonly depth: number }[]
}

/** `text`: the value with its defaults; null: the value as it was sent. */
export type CheckAnswer = { readonly milliseconds: number } & (
  | { readonly text: string | null }
  | { readonly problems: readonly InputProblem[]; readonly more: number }
  /** It was not done within the deadline. */
  | { readonly isLate: true }
)

/** Bounds the memory that defaults take; time is bounded by the deadline. */
const STEPS = 50_000_000

const schemas = new Map<number, JsonObject>()
let checker = new InputChecker(threadMatchers())

parentPort?.on("message", (batch: CheckBatch) => {
  if (batch.isFirst) schemas.clear()
  for (const [id, text] of batch.schemas) schemas.set(id, JSON.parse(text) as JsonObject)
  parentPort?.postMessage(checkAll(batch))
})

/** Fewer answers than checks: there was no time to begin the others. */
function checkAll({ checks, milliseconds }: CheckBatch): CheckAnswer[] {
  const answers: CheckAnswer[] = []
  const begun = performance.now()
  let last = begun
  const took = () => {
    const before = last
    last = performance.now()
    return last - before
  }
  try {
    withinDeadline(milliseconds, () => {
      for (const check of checks) {
        // What begins later would be cut off although it may be short.
        if (last - begun > milliseconds / 2) return
        const answer = checkOne(check)
        answers.push({ ...answer, milliseconds: took() } as CheckAnswer)
      }
    })
  } catch (error) {
    if (!(error instanceof DeadlineError) && !(error instanceof StepsSpentError)) throw error
    answers.push({ isLate: true, milliseconds: took() })
    // It was interrupted anywhere, maybe in the middle of a change to what is compiled.
    checker = new InputChecker(threadMatchers())
  }
  return answers
}

function checkOne({ schema, text, depth }: CheckBatch["checks"][number]) {
  const given = JSON.parse(text) as Json
  const found = schemas.get(schema)
  const result =
    found === undefined ? refused("Its schema is not known.") : checker.check(found, { given, depth }, STEPS)
  if (result.problems !== undefined) return result
  const filled = JSON.stringify(result.value)
  return { text: filled === text ? null : filled }
}
