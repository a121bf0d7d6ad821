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
import {
  isNewFolder,
  type RunningOptions,
  runningFlags,
  storeFlags,
  storeLocation,
  storeName,
} from "../input/store.ts"
import { type SubmissionFlags, submitOptions } from "../input/submit-options.ts"
import { earlySignals } from "../live/early-signals.ts"
import { follow } from "../live/follow.ts"
import type { DeadLetterFlags } from "../output/left-dead-letters.ts"
import { commandLog } from "../output/log.ts"
import { problemsAsJson, renderProblems } from "../output/problems.ts"
import { report } from "../output/result.ts"
import { paintFor } from "../output/terminal.ts"
import { inTurn, keepFolder } from "../target/folder-wait.ts"
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
  const early = earlySignals()
  try {
    await keepFolder(location)
    for (const { document } of others) await umbra.register(document as unknown as WorkflowDefinition)
    const definition = plan.document as unknown as WorkflowDefinition
    const { id } = await umbra.submit(definition, input as never, submitOptions(options))
    const title = `${plan.name}  job ${id}  in ${storeName(location)}`
    const stream = options.json ? process.stderr : process.stdout
    const shown = { flags: storeFlags(options), runningFlags: runningFlags(options), runsHere: true }
    const look = async () => (await umbra.graph(id)).routes ?? []
    const routes = plan.pipeline === null ? undefined : look
    await follow({ jobs: umbra, jobId: id, graph: plan, routes, title, stream, log, early, ...shown })
    return await report(umbra, id, { ...options, ...shown })
  } finally {
    early.release()
    await umbra.close()
  }
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
