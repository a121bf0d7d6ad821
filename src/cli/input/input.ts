import { inputChecks } from "../../definition/index.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"

/** Checked before anything is opened, so that a wrong input has no effect. */
export async function mustFit(plan: Plan, input: unknown): Promise<void> {
  const { problems, more } = await inputChecks.check(plan.input, input, { owner: "local" })
  if (problems === undefined) return
  const lines = problems.map(({ path, message }) => `  ${path === "" ? "input" : path}: ${message}`)
  if (more > 0) lines.push(`  and ${more} more`)
  throw new UmbraError("E304", `the input fails the schema of workflow "${plan.name}":\n${lines.join("\n")}`)
}
