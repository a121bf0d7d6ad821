/** `umbra validate FILE`: every problem of a definition at once, for people or (`--json`) for programs. */
import { loadWorkflow } from "../definition/index.ts"
import type { Problem } from "../definition/problem.ts"
import { UmbraError } from "../errors.ts"
import { exitCode } from "./exit.ts"
import { loadCatalog } from "./handlers.ts"
import { renderProblems, sortProblems } from "./problems.ts"
import { readSource, type Source } from "./source.ts"
import { count, paintFor } from "./terminal.ts"

export interface ValidateOptions {
  readonly json?: boolean
  readonly handlers?: readonly string[]
}

interface Verdict {
  readonly source?: Source
  readonly problems: readonly Problem[]
  readonly summary: string
}

export async function validate(file: string, options: ValidateOptions): Promise<number> {
  const verdict = await judge(file, options.handlers ?? [])
  const valid = verdict.problems.length === 0
  process.stdout.write(options.json ? renderJson(verdict.problems) : renderHuman(file, verdict))
  return valid ? exitCode.ok : exitCode.invalid
}

/** A file or module that cannot be read is a verdict too, so that `--json` always answers with JSON. */
async function judge(file: string, modules: readonly string[]): Promise<Verdict> {
  try {
    const [source, handlers] = await Promise.all([readSource(file), loadCatalog(modules)])
    const loaded = loadWorkflow(source.text, { handlers, ...(source.format && { format: source.format }) })
    if (loaded.plan === undefined) return { source, problems: loaded.problems, summary: "" }
    const { name, nodes, dependencies } = loaded.plan
    return {
      source,
      problems: [],
      summary: `${name}, ${count(nodes.length, "node")}, ${count(dependencies.items.length, "edge")}`,
    }
  } catch (error) {
    if (!(error instanceof UmbraError)) throw error
    return { problems: [{ code: error.code, message: error.message, path: "" }], summary: "" }
  }
}

function renderHuman(file: string, { source, problems, summary }: Verdict): string {
  const paint = paintFor(process.stdout)
  const name = source?.name ?? (file === "-" ? "<stdin>" : file)
  if (problems.length === 0) return `${paint.green(`✓ ${name} is valid`)} (${summary})\n`
  const listing = renderProblems(problems, { name, paint, ...(source && { text: source.text }) })
  const unknownHandler = problems.some(({ code }) => code === "E103")
  return unknownHandler
    ? `${listing}${paint.dim("Handlers of your own are found with --handlers MODULE.")}\n`
    : listing
}

function renderJson(problems: readonly Problem[]): string {
  const errors = sortProblems(problems).map(({ code, message, path, line = null, column = null }) => ({
    code,
    message,
    path,
    line,
    column,
  }))
  return `${JSON.stringify({ valid: errors.length === 0, errors }, null, 2)}\n`
}
