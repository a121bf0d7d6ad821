/** Checks inputs in a thread, in batches, within a number of steps (checks.ts). */
import { parentPort } from "node:worker_threads"
import type { Json, JsonObject } from "../../core/json.ts"
import { DeadlineError } from "./deadline.ts"
import { InputChecker, refused } from "./input.ts"
import type { InputProblem } from "./schema-checks.ts"
import { CheckRun, StepsSpentError, stepsPerMs } from "./schema-checks.ts"
import { threadMatchers } from "./schema-matchers.ts"

export interface CheckBatch {
  /** For all checks of the batch, counted in steps; uncountable matches are interrupted after this time. */
  readonly milliseconds: number
  /** Schemas that the thread does not have yet, as JSON. */
  readonly schemas: readonly (readonly [id: number, text: string])[]
  /** Discard the schemas sent before. */
  readonly isFirst: boolean
  readonly checks: readonly { readonly schema: number; readonly text: string; readonly depth: number }[]
}

/** `text`: the value with its defaults; null: the value as it was sent. */
export type CheckAnswer = { readonly milliseconds: number } & (
  | { readonly text: string | null }
  | { readonly problems: readonly InputProblem[]; readonly more: number }
  /** It did not finish within the time of the batch. */
  | { readonly isLate: true }
)

const schemas = new Map<number, JsonObject>()
const checker = new InputChecker(threadMatchers())

parentPort?.on("message", (batch: CheckBatch) => {
  if (batch.isFirst) schemas.clear()
  for (const [id, text] of batch.schemas) schemas.set(id, JSON.parse(text) as JsonObject)
  parentPort?.postMessage(checkAll(batch))
})

/** Fewer answers than checks: the time of the batch was used up before the others started. */
function checkAll({ checks, milliseconds }: CheckBatch): CheckAnswer[] {
  const answers: CheckAnswer[] = []
  let spent = 0
  for (const check of checks) {
    // A short check that starts later would be interrupted too.
    if (spent > (milliseconds * stepsPerMs) / 2) break
    const steps = milliseconds * stepsPerMs - spent
    const run = new CheckRun({ steps, deadline: performance.now() + milliseconds })
    const answer = checkOne(check, run)
    spent += run.spent
    answers.push({ ...answer, milliseconds: run.spent / stepsPerMs })
  }
  return answers
}

type Answer<A = CheckAnswer> = A extends unknown ? Omit<A, "milliseconds"> : never

function checkOne({ schema, text, depth }: CheckBatch["checks"][number], run: CheckRun): Answer {
  const found = schemas.get(schema)
  if (found === undefined) return refused("The schema of the input is unknown.")
  try {
    run.spend(text.length >> 5)
    const result = checker.check(found, { given: JSON.parse(text) as Json, depth }, run)
    if (result.problems !== undefined) return result
    const filled = JSON.stringify(result.value)
    return { text: filled === text ? null : filled }
  } catch (error) {
    if (error instanceof DeadlineError || error instanceof StepsSpentError) return { isLate: true }
    throw error
  }
}
