import { checkInput } from "../definition/index.ts"
import type { Plan } from "../definition/plan.ts"
import { UmbraError } from "../errors.ts"

/** Before anything is opened, so that a wrong input leaves no trace. */
export function mustFit(plan: Plan, input: unknown): void {
  const { problems } = checkInput(plan.input, input)
  if (problems === undefined) return
  const lines = problems.map(({ path, message }) => `  ${path === "" ? "input" : path}: ${message}`)
  throw new UmbraError("E304", `the input does not fit workflow "${plan.name}":\n${lines.join("\n")}`)
}
