/** `umbra run FILE`: submits a workflow, runs it in this process and shows it until it has ended. */
import { inputChecks, type WorkflowDefinition } from "../../definition/index.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import type { Provider } from "../../provider/provider.ts"
import { openUmbra } from "../../umbra.ts"
import { loadAdapters, loadDocument, loadHandlers, loadProviders, unknownTypeHint } from "../input/modules.ts"
import { readJson, type SubmissionFlags, submitOptions } from "../input/source.ts"
import { isNewFolder, type RunningOptions, storeLocation } from "../input/store.ts"
import { commandLog } from "../output/log.ts"
import { reportProblems } from "../output/problems.ts"
import type { DeadLetterFlags } from "../output/result.ts"
import { paintFor } from "../output/terminal.ts"
import { inTurn } from "../target/folder-wait.ts"
import { seeToItsEnd, withOwnRunner } from "../target/runner.ts"

export interface RunOptions extends RunningOptions, SubmissionFlags, DeadLetterFlags {
  readonly input?: string
  /** Files with workflows that its nodes run. */
  readonly with?: readonly string[]
  readonly json?: boolean
}

export async function run(file: string, options: RunOptions): Promise<number> {
  const handlers = await loadHandlers(options)
  const providers = await loadProviders(options)
  const plans: Plan[] = []
  for (const each of [file, ...(options.with ?? [])]) {
    const { source, plan, problems } = await loadDocument(each, options, handlers)
    if (plan === undefined)
      return reportProblems(problems, source, { ...options, hint: unknownTypeHint(problems) })
    plans.push(plan)
  }
  mustHaveProviders(plans, providers)
  const [plan, ...others] = plans as [Plan, ...Plan[]]
  const input = await readJson("--input", options.input)
  await mustFit(plan, input)
  const location = storeLocation(options)
  const log = commandLog()
  const adapters = await loadAdapters(options)
  // On standard error, so that --json changes nothing. For a PostgreSQL database this is logged.
  if (isNewFolder(location))
    process.stderr.write(paintFor(process.stderr).dim(`Creating a database in ${location}.\n`))
  const umbra = await inTurn(() => openUmbra(location, { handlers, adapters, providers, log: log.log }))
  return withOwnRunner({ umbra, location, log, options }, async runner => {
    for (const { document } of others) await umbra.register(document as unknown as WorkflowDefinition)
    const definition = plan.document as unknown as WorkflowDefinition
    const { id } = await umbra.submit(definition, input as never, submitOptions(options))
    return seeToItsEnd(runner, id, options)
  })
}

/** Without the provider the job would wait for ever: it runs only in this process. */
function mustHaveProviders(plans: readonly Plan[], providers: readonly Provider[]): void {
  const known = new Set<string | null>([null, ...providers.map(({ name }) => name)])
  const node = plans.flatMap(({ nodes }) => nodes).find(({ provider }) => !known.has(provider))
  if (node === undefined) return
  throw new UmbraError(
    "E660",
    `Node "${node.id}" uses provider "${node.provider}", which is not loaded. Add the file or module that defines it with --providers.`,
  )
}

/** Checked before anything is opened, so that a wrong input has no effect. */
async function mustFit(plan: Plan, input: unknown): Promise<void> {
  const { problems, more } = await inputChecks.check(plan.input, input, { owner: "local" })
  if (problems === undefined) return
  const lines = problems.map(({ path, message }) => `  ${path === "" ? "input" : path}: ${message}`)
  if (more > 0) lines.push(`  and ${more} more`)
  throw new UmbraError("E304", `the input fails the schema of workflow "${plan.name}":\n${lines.join("\n")}`)
}
