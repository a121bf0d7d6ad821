/** `umbra graph FILE`: the graph of a valid definition, for people, for pages or for programs. */
import { exitCode } from "../exit.ts"
import { loadDocument, type Modules } from "../input/modules.ts"
import { formats } from "../output/pictures.ts"
import { reportProblems } from "../output/problems.ts"
import { paintFor } from "../output/terminal.ts"

export interface GraphOptions extends Modules {
  readonly format: string
  readonly json?: boolean
}

export async function graph(file: string, options: GraphOptions): Promise<number> {
  const { source, plan, problems } = await loadDocument(file, options)
  if (plan === undefined) return reportProblems(problems, source, options)
  const format = formats[options.json ? "json" : options.format]!
  const paint = paintFor(process.stdout)
  process.stdout.write(
    plan.pipeline === null ? format.graph(plan, paint) : format.pipeline(plan, plan.pipeline, paint),
  )
  return exitCode.ok
}
