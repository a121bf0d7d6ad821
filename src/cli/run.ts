/** `umbra run FILE`: submits a workflow, runs it in this process and shows it until it has ended. */
import { loadWorkflow, type WorkflowDefinition } from "../definition/index.ts"
import type { Plan } from "../definition/plan.ts"
import type { SubmitOptions } from "../engine/submissions.ts"
import { openUmbra, type Umbra } from "../umbra.ts"
import type { Handler } from "../worker/handler.ts"
import { exitCode } from "./exit.ts"
import { catalogWith, loadUserHandlers } from "./handlers.ts"
import { mustFit, readInput } from "./input.ts"
import { follow } from "./live/follow.ts"
import { commandLog } from "./log.ts"
import { renderProblems } from "./problems.ts"
import { finalJob, resultText } from "./result.ts"
import { readSource } from "./source.ts"
import { type StoreOptions, storeFlags, storeLocation, storeName } from "./store.ts"
import { paintFor } from "./terminal.ts"

export interface RunOptions extends StoreOptions {
  readonly input?: string
  readonly handlers?: readonly string[]
  /** Workflows that its nodes run. */
  readonly with?: readonly string[]
  readonly json?: boolean
  readonly ttl?: number | null
  readonly label?: Readonly<Record<string, string>>
  readonly idempotencyKey?: string
  readonly priority?: number
}

export async function run(file: string, options: RunOptions): Promise<number> {
  const handlers = await loadUserHandlers(options.handlers ?? [])
  const plan = await loadPlan(file, handlers)
  if (plan === null) return exitCode.invalid
  const others: Plan[] = []
  for (const other of options.with ?? []) {
    const loaded = await loadPlan(other, handlers)
    if (loaded === null) return exitCode.invalid
    others.push(loaded)
  }
  const input = await readInput(options.input)
  mustFit(plan, input)
  const location = storeLocation(options)
  const log = commandLog()
  const umbra = await openUmbra(location, { handlers, log: log.log })
  try {
    for (const { canonical } of others) await umbra.register(canonical as unknown as WorkflowDefinition)
    const definition = plan.canonical as unknown as WorkflowDefinition
    const { id } = await umbra.submit(definition, input as never, submitOptions(options))
    const title = `${plan.name}  job ${id}  in ${storeName(location)}`
    const stream = options.json ? process.stderr : process.stdout
    await follow({ umbra, jobId: id, plan, title, stream, log, storeFlags: storeFlags(options) })
    return await report(umbra, id, options)
  } finally {
    await umbra.close()
  }
}

async function loadPlan(file: string, handlers: readonly Handler[]): Promise<Plan | null> {
  const source = await readSource(file)
  const { name, text, format } = source
  const loaded = loadWorkflow(text, { handlers: catalogWith(handlers), ...(format && { format }) })
  if (loaded.plan !== undefined) return loaded.plan
  const paint = paintFor(process.stderr)
  process.stderr.write(renderProblems(loaded.problems, { name, text, paint }))
  if (loaded.problems.some(({ code }) => code === "E103"))
    process.stderr.write(paint.dim("Handlers of your own are found with --handlers MODULE.\n"))
  return null
}

function submitOptions({ ttl, label, idempotencyKey, priority }: RunOptions): SubmitOptions {
  return {
    ...(ttl === undefined ? {} : { ttlSeconds: ttl }),
    ...(label === undefined ? {} : { labels: label }),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    ...(priority === undefined ? {} : { priority }),
  }
}

/** Tells what came of the job. It may also have been left unfinished, when the process was asked to stop. */
export async function report(
  umbra: Umbra,
  jobId: string,
  options: StoreOptions & { readonly json?: boolean },
): Promise<number> {
  const [job, graph] = await Promise.all([umbra.job(jobId), umbra.graph(jobId)])
  process.stdout.write(
    options.json
      ? `${JSON.stringify(finalJob({ job, graph }), null, 2)}\n`
      : resultText({ job, graph }, paintFor(process.stdout), storeFlags(options)),
  )
  return job.status === "COMPLETED" ? exitCode.ok : exitCode.failed
}
