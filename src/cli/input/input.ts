import { inputChecks } from "../../definition/index.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"

/** Before anything is opened, so that a wrong input leaves no trace. */
export async function mustFit(plan: Plan, input: unknown): Promise<void> {
  const { problems, more } = await inputChecks.check(plan.input, input, { owner: "local" })
  if (problems === undefined) return
  const lines = problems.map(({ path, message }) => `  ${path === "" ? "input" : path}: ${message}`)
  if (more > 0) lines.push(`  and ${more} more`)
  throw new UmbraError("E304", `the input does not fit workflow "${plan.name}":\n${lines.join("\n")}`)
}
