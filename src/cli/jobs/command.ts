/**
 * `umbra jobs cancel|retry|delete JOB`. The engine that owns the job carries it out. If there is none (always so for a
 * folder, which one process holds at a time), this process does it, as an engine that runs no node; what a retry put
 * back is then run by `umbra resume`, by the next engine, or here with `--wait`.
 */
import type { JobCommand } from "../../engine/engine.ts"
import type { JobSnapshot } from "../../engine/job-snapshot.ts"
import { UmbraError } from "../../errors.ts"
import { isPostgres } from "../../journal/open.ts"
import { openUmbra, type Umbra } from "../../umbra.ts"
import { exitCode } from "../exit.ts"
import { loadUserHandlers, loadUserProviders } from "../handlers.ts"
import { follow } from "../live/follow.ts"
import { commandLog } from "../log.ts"
import { report } from "../run.ts"
import { existingStore, type StoreOptions, storeFlags, withReader } from "../store.ts"

export interface CommandOptions extends StoreOptions {
  readonly json?: boolean
}

export interface CancelOptions extends CommandOptions {
  readonly reason?: string
}

export interface RetryOptions extends CommandOptions {
  readonly wait?: boolean
  readonly handlers?: readonly string[]
  readonly providers?: readonly string[]
}

export async function cancel(jobId: string, options: CancelOptions): Promise<number> {
  const { reason } = options
  const done = await carryOut(jobId, { type: "cancel", ...(reason === undefined ? {} : { reason }) }, options)
  return tell(done, options, "is cancelled; what is done of it stays done.")
}

export async function remove(jobId: string, options: CommandOptions): Promise<number> {
  const done = await carryOut(jobId, { type: "delete" }, options)
  return tell(done, options, "is deleted: lists hide it, and retention removes it.")
}

export async function retry(jobId: string, options: RetryOptions): Promise<number> {
  if (options.wait) return retryHere(jobId, options)
  const done = await carryOut(jobId, { type: "retry" }, options)
  return tell(
    done,
    options,
    done.byEngine
      ? "is tried again: an engine on this database runs what is not done."
      : `waits to be tried again. No engine runs it yet: \`umbra resume${storeFlags(options)}\` does.`,
  )
}

interface CarriedOut {
  readonly job: JobSnapshot
  /** An engine that was already there has done it. */
  readonly byEngine: boolean
}

async function carryOut(jobId: string, command: JobCommand, options: CommandOptions): Promise<CarriedOut> {
  const location = existingStore(options)
  const asked = isPostgres(location) ? await askEngine(jobId, command, options) : null
  if (asked !== null) return { job: asked, byEngine: true }
  const umbra = await openUmbra(location, { runNodes: false, log: commandLog("error").log })
  try {
    await send(umbra, jobId, command)
    return { job: await umbra.job(jobId), byEngine: false }
  } finally {
    await umbra.close()
  }
}

/** null: there is no engine that owns the job. */
async function askEngine(
  jobId: string,
  command: JobCommand,
  options: CommandOptions,
): Promise<JobSnapshot | null> {
  return withReader(options, async reader =>
    (await reader.ask(jobId, command)) ? await reader.job(jobId) : null,
  )
}

function send(umbra: Umbra, jobId: string, command: JobCommand): Promise<void> {
  if (command.type === "cancel") return umbra.cancel(jobId, command.reason)
  return command.type === "retry" ? umbra.retry(jobId) : umbra.delete(jobId)
}

/** Tries again and stays until the job has ended; its nodes run here unless another engine owns it. */
async function retryHere(jobId: string, options: RetryOptions): Promise<number> {
  const handlers = await loadUserHandlers(options.handlers ?? [])
  const providers = await loadUserProviders(options)
  const log = commandLog()
  const umbra = await openUmbra(existingStore(options), { handlers, providers, log: log.log })
  try {
    const { plan } = await umbra.queries.fold(jobId)
    const missing = plan.nodes.find(node => umbra.handlers.get(node.handler) === undefined)
    if (missing !== undefined && umbra.owns(jobId)) throw missingHandler(missing)
    await umbra.retry(jobId)
    const stream = options.json ? process.stderr : process.stdout
    const title = `${plan.name}  job ${jobId}`
    await follow({ umbra, jobId, plan, title, stream, log, storeFlags: storeFlags(options) })
    return await report(umbra, jobId, options)
  } finally {
    await umbra.close()
  }
}

function missingHandler({ id, handler }: { id: string; handler: string }): UmbraError {
  return new UmbraError(
    "E103",
    `node ${id} needs handler "${handler}". Give the module that has it with --handlers.`,
  )
}

function tell({ job }: CarriedOut, options: CommandOptions, what: string): number {
  const { job_id, status } = job
  process.stdout.write(
    options.json ? `${JSON.stringify({ job_id, status }, null, 2)}\n` : `Job ${job_id} ${what}\n`,
  )
  return exitCode.ok
}
