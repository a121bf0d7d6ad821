/** `umbra run FILE`: submits a workflow, runs it in this process and shows it until it has ended. */
import { loadWorkflow, type WorkflowDefinition } from "../../definition/index.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import type { Provider } from "../../provider/provider.ts"
import { openUmbra } from "../../umbra.ts"
import type { Handler } from "../../worker/handler.ts"
import { exitCode } from "../exit.ts"
import { mustFit } from "../input/input.ts"
import { readJson } from "../input/json-option.ts"
import { readSource } from "../input/source.ts"
import { isNewFolder, type RunningOptions, storeLocation } from "../input/store.ts"
import { type SubmissionFlags, submitOptions } from "../input/submit-options.ts"
import type { DeadLetterFlags } from "../output/left-dead-letters.ts"
import { commandLog } from "../output/log.ts"
import { problemsAsJson, renderProblems } from "../output/problems.ts"
import { paintFor } from "../output/terminal.ts"
import { inTurn } from "../target/folder-wait.ts"
import { seeToItsEnd, withOwnRunner } from "../target/runner.ts"
import { type AdapterModules, adaptersFor, loadUserAdapters, unknownTypeHint } from "./adapters.ts"
import { catalogWith, loadUserHandlers, loadUserProviders } from "./handlers.ts"

export interface RunOptions extends RunningOptions, SubmissionFlags, DeadLetterFlags {
  readonly input?: string
  /** Files with workflows that its nodes run. */
  readonly with?: readonly string[]
  readonly json?: boolean
}

export async function run(file: string, options: RunOptions): Promise<number> {
  const handlers = await loadUserHandlers(options.handlers ?? [])
  const providers = await loadUserProviders(options)
  const load = (source: string) => loadPlan(source, handlers, options)
  const plan = await load(file)
  if (plan === null) return exitCode.invalid
  const others: Plan[] = []
  for (const other of options.with ?? []) {
    const loaded = await load(other)
    if (loaded === null) return exitCode.invalid
    others.push(loaded)
  }
  mustHaveProviders([plan, ...others], providers)
  const input = await readJson("--input", options.input)
  await mustFit(plan, input)
  const location = storeLocation(options)
  const log = commandLog()
  const adapters = await loadUserAdapters(options)
  if (!options.json && isNewFolder(location))
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

async function loadPlan(
  file: string,
  handlers: readonly Handler[],
  modules: AdapterModules & { readonly json?: boolean },
): Promise<Plan | null> {
  const source = await readSource(file)
  const { name, text, format } = source
  const catalogs = { handlers: catalogWith(handlers), adapters: await adaptersFor(text, modules) }
  const loaded = loadWorkflow(text, { ...catalogs, ...(format && { format }) })
  if (loaded.plan !== undefined) return loaded.plan
  if (modules.json) {
    process.stdout.write(problemsAsJson(loaded.problems))
    return null
  }
  const paint = paintFor(process.stderr)
  process.stderr.write(renderProblems(loaded.problems, { name, text, paint }))
  process.stderr.write(paint.dim(unknownTypeHint(loaded.problems)))
  return null
}
