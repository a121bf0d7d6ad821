/** `umbra validate FILE`: every problem of a definition at once, for people or (`--json`) for programs. `umbra graph FILE`: its graph. */
import { setTimeout } from "node:timers/promises"
import type { Plan } from "../../definition/plan.ts"
import type { Problem } from "../../definition/problem.ts"
import { UmbraError } from "../../errors.ts"
import { earlyExit, exitCode } from "../exit.ts"
import { loadDocument, loadProviders, type Modules, unknownTypeHint } from "../input/modules.ts"
import { readSource, type Source } from "../input/source.ts"
import { formats } from "../output/pictures.ts"
import { print } from "../output/print.ts"
import { renderProblems, reportProblems, sortProblems } from "../output/problems.ts"
import { count, paintFor, printable } from "../output/terminal.ts"

export interface ValidateOptions extends Modules {
  readonly json?: boolean
}

interface Verdict {
  /** null: unknown, since a given module cannot be loaded. */
  readonly valid: boolean | null
  readonly source?: Source
  readonly problems: readonly Problem[]
  /** Warnings do not make the workflow invalid. Absent: no providers were given to compare with. */
  readonly warnings?: readonly string[] | undefined
  readonly summary: string
}

/** Modules may take this long to load. */
const LOAD_MS = 60_000

export async function validate(file: string, options: ValidateOptions, loadMs = LOAD_MS): Promise<number> {
  if (options.json) {
    earlyExit.report = message => print(options, verdictJson(notLoaded({ code: "E602", message })), "")
    earlyExit.isAnyCodeReported = true
  }
  const verdict = await Promise.race([judge(file, options), loadedTooLate(options, loadMs)])
  print(options, verdictJson(verdict), () => renderHuman(file, verdict))
  return verdict.valid ? exitCode.ok : exitCode.invalid
}

/**
 * A file that cannot be read makes the document invalid. A module that cannot be loaded says nothing about the document:
 * it is an error of the command, also printed as JSON with `--json`.
 */
async function judge(file: string, options: ValidateOptions): Promise<Verdict> {
  try {
    const read = await readSource(file)
    const schedules = await schedulesVerdict(read)
    if (schedules !== null) return schedules
    const { source, plan, problems } = await loadDocument(read, options)
    if (plan === undefined) return { valid: false, source, problems, summary: "" }
    const warnings = await findWarnings(plan.nodes, options)
    return { valid: true, source, problems: [], warnings, summary: formatSummary(plan) }
  } catch (error) {
    if (!(error instanceof UmbraError)) throw error
    const isFile = error.code === "E601"
    if (!isFile && !options.json) throw error
    return isFile ? { ...notLoaded(error), valid: false } : notLoaded(error)
  }
}

/** null: the file has no schedules. Whether their workflows exist is known where they are stored. */
async function schedulesVerdict(source: Source): Promise<Verdict | null> {
  if (!source.text.includes("schedules")) return null
  const { isForSchedules, readSchedules } = await import("../schedules/file.ts")
  if (!isForSchedules(source)) return null
  const { wanted, problems } = readSchedules(source)
  return { valid: problems.length === 0, source, problems, summary: count(wanted.size, "schedule") }
}

/** Not referenced: a module without timers or connections that never settles ends the process, which reports it. */
async function loadedTooLate({ json }: ValidateOptions, loadMs: number): Promise<Verdict> {
  await setTimeout(loadMs, undefined, { ref: false })
  const error = new UmbraError("E602", `the given modules are not loaded after ${loadMs / 1000} s.`)
  if (!json) throw error
  return notLoaded(error)
}

function notLoaded({ code, message }: Pick<UmbraError, "code" | "message">): Verdict {
  return { valid: null, problems: [{ code, message, path: "" }], summary: "" }
}

function formatSummary({ name, nodes, dependencies, pipeline }: Plan): string {
  if (pipeline === null)
    return `${name}, ${count(nodes.length, "node")}, ${count(dependencies.items.length, "edge")}`
  const adapters = pipeline.routes.reduce((sum, route) => sum + route.adapters.length, 0)
  return `${name}, ${count(pipeline.routes.length, "route")}, ${count(adapters, "adapter")}`
}

/** A provider that is not known here may be known where the workflow runs: only a list of them says more. */
async function findWarnings(
  nodes: readonly { readonly id: string; readonly provider: string | null }[],
  { providers, handlers = [] }: ValidateOptions,
): Promise<readonly string[] | undefined> {
  if (providers === undefined) return undefined
  const known = new Map((await loadProviders({ providers, handlers })).map(each => [each.name, each]))
  const names = [...known.keys()].join(", ")
  return nodes.flatMap(({ id, provider }) => {
    if (provider === null) return []
    const found = known.get(provider)
    if (found === undefined)
      return [
        `node "${id}" uses provider "${provider}", which is not among those given (${names}): it would wait.`,
      ]
    return found.owners === undefined
      ? []
      : [`node "${id}" uses provider "${provider}", which is only for owners ${found.owners.join(", ")}.`]
  })
}

function renderHuman(file: string, { source, problems, warnings = [], summary }: Verdict): string {
  const paint = paintFor(process.stdout)
  const name = source?.name ?? (file === "-" ? "<stdin>" : file)
  if (problems.length === 0) {
    const noted = warnings.map(warning => `${paint.yellow("warning:")} ${printable(warning)}\n`).join("")
    return `${paint.green(`✓ ${name} is valid`)} (${summary})\n${noted}`
  }
  const listing = renderProblems(problems, { name, paint, ...(source && { text: source.text }) })
  return `${listing}${paint.dim(unknownTypeHint(problems))}`
}

function verdictJson({ valid, problems, warnings }: Verdict) {
  const errors = sortProblems(problems).map(({ code, message, path, line = null, column = null }) => {
    return { code, message, path, line, column }
  })
  return { valid, errors, warnings }
}

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
