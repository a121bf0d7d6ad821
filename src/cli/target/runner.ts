/**
 * For commands that wait until a job has ended. On a server the job runs there and continues without this process. On a
 * store this process becomes an engine with the given handlers and providers, like `umbra run`.
 */

import type { ForkOptions, ForkRequest, JobSnapshot, RemoteGraph, RemoteNode } from "../../client/index.ts"
import type { Progress } from "../../core/view/view.ts"
import { isoEvent, isoGraph } from "../../jobs/iso-times.ts"
import type { ReplayWhich } from "../../pipeline/queries.ts"
import type { Umbra } from "../../umbra.ts"
import { existingStore, type RunningOptions, runningFlags, storeFlags, storeName } from "../input/store.ts"
import { type EarlySignals, earlySignals, type FollowedJobs, follow } from "../live/follow.ts"
import { toCoreGraph } from "../live/tree.ts"
import type { Routes } from "../live/view.ts"
import { type CommandLog, commandLog } from "../output/log.ts"
import { type DeadLetterFlags, report } from "../output/result.ts"
import { inTurn, keepFolder } from "./folder-wait.ts"
import { advised, serverFor, type Target, type TargetJobs, type TargetOptions } from "./open.ts"
import { reconnectNotice } from "./server.ts"

export async function withRunner<T>(options: TargetOptions, use: (runner: Runner) => Promise<T>): Promise<T> {
  const log = commandLog()
  const opened = await inTurn(async () => (await serverFor(options)) ?? openEngine(options, log), {
    through: true,
  })
  return "explain" in opened ? onServer(opened, use) : withOwnRunner({ ...opened, log, options }, use)
}

async function onServer<T>(target: Target, use: (runner: Runner) => Promise<T>): Promise<T> {
  try {
    return await attentively(remoteRunner(target), use)
  } catch (error) {
    throw await advised(await target.explain(error), target)
  }
}

async function openEngine(
  options: TargetOptions,
  { log }: CommandLog,
): Promise<Pick<OwnEngine, "umbra" | "location">> {
  // Imported only here: a job that runs elsewhere needs no engine.
  const [{ openUmbra }, { loadModules }] = await Promise.all([
    import("../../umbra.ts"),
    import("../input/modules.ts"),
  ])
  const modules = await loadModules(options)
  const location = existingStore(options)
  return { umbra: await openUmbra(location, { ...modules, log }), location }
}

export function remoteRunner({ jobs, name, flags }: Pick<Target, "jobs" | "name" | "flags">): Runner {
  const running = new Map<string, Progress | null>()
  let polledAt = Number.NEGATIVE_INFINITY
  // The events of a job do not show which handlers run: the view polls the live overlay.
  const poll = (id: string) => {
    if (performance.now() - polledAt < POLL_MS) return
    polledAt = performance.now()
    jobs.graph(id).then(
      ({ live }) => {
        for (const { id: node, status, progress } of live?.nodes ?? [])
          if (status === "RUNNING") running.set(node, progress ?? running.get(node) ?? null)
      },
      () => {},
    )
  }
  return {
    name,
    flags,
    // Another engine runs the job and has its handlers.
    runningFlags: flags,
    runsHere: false,
    log: commandLog(),
    job: id => jobs.job(id),
    graph: id => jobs.graph(id),
    retry: id => jobs.retry(id),
    cancel: (id, reason) => jobs.cancel(id, reason),
    submit: (reference, input, options) => jobs.accept(reference, input, options),
    replay: (id, which) => jobs.replay(id, which),
    fork: (id, request, options) => jobs.acceptFork(id, request, options),
    missing: () => undefined,
    async *watch(id, { signal, onTrouble }) {
      const events = jobs.watch(id, {
        signal,
        onReconnect: reconnectNotice(onTrouble),
        onProgress: ({ node, node_pct = null, progress_message: message }) =>
          void (node === undefined || running.set(node, { percent: node_pct, message })),
      })
      for await (const event of events) {
        // The last report was about the previous state.
        if (event.node !== undefined) running.delete(event.node)
        yield event
      }
    },
    activity: id => {
      poll(id)
      return {
        isHere: false,
        running: [...running].map(([node, progress]) => ({ node, progress })),
        unserved: [],
      }
    },
  }
}

const POLL_MS = 1000

/** A job that this process runs, and what is the same for every job that a command shows until it has ended. */
export interface Runner extends FollowedJobs {
  readonly name: string
  readonly flags: string
  readonly runningFlags: string
  readonly runsHere: boolean
  readonly log: CommandLog
  /** Absent: it submits no job. */
  readonly early?: EarlySignals
  job(jobId: string): Promise<JobSnapshot>
  graph(jobId: string): Promise<RemoteGraph>
  retry(jobId: string): Promise<unknown>
  submit(
    reference: string,
    input: unknown,
    options: Parameters<TargetJobs["accept"]>[2],
  ): Promise<{ readonly job_id: string; readonly is_new: boolean }>
  replay(jobId: string, which: ReplayWhich): Promise<{ readonly job_id: string }>
  fork(jobId: string, request: ForkRequest, options: ForkOptions): Promise<{ readonly job_id: string }>
  /** The first node that this process would have to run and cannot. */
  missing(nodes: readonly RemoteNode[], jobId: string): RemoteNode | undefined
}

interface OwnEngine {
  readonly umbra: Umbra
  readonly location: string
  readonly log: CommandLog
  readonly options: RunningOptions & { readonly owner?: string }
}

/** Closes the engine at the end. */
export async function withOwnRunner<T>(own: OwnEngine, use: (runner: Runner) => Promise<T>): Promise<T> {
  try {
    return await attentively(ownRunner(own), async runner => {
      await keepFolder(own.location)
      return use(runner)
    })
  } finally {
    await own.umbra.close()
  }
}

async function attentively<T>(runner: Runner, use: (runner: Runner) => Promise<T>): Promise<T> {
  const early = earlySignals()
  try {
    return await use({ ...runner, early })
  } finally {
    early.release()
  }
}

function ownRunner({ umbra, location, log, options }: OwnEngine): Runner {
  const owner = options.owner === undefined ? {} : { owner: options.owner }
  return {
    name: storeName(location),
    flags: storeFlags(options),
    runningFlags: runningFlags(options),
    runsHere: true,
    log,
    job: id => umbra.job(id),
    graph: async id => isoGraph(await umbra.graph(id)) as RemoteGraph,
    retry: id => umbra.retry(id),
    cancel: (id, reason) => umbra.cancel(id, reason),
    async *watch(id, { signal }) {
      for await (const event of umbra.watch(id, { signal })) yield isoEvent(event)
    },
    activity: id => umbra.activity(id),
    async submit(reference, input, { signal: _, ...rest } = {}) {
      const { jobId, isNew } = await umbra.accept(reference, input, { ...rest, ...owner })
      return { job_id: jobId, is_new: isNew }
    },
    async replay(id, which) {
      return { job_id: (await umbra.pipelines.replay(id, which)).jobId }
    },
    async fork(id, request, { idempotencyKey }) {
      return { job_id: (await umbra.acceptFork(id, request, { idempotencyKey, ...owner })).jobId }
    },
    missing: (nodes, id) =>
      umbra.owns(id) ? nodes.find(({ handler }) => !umbra.serves(handler)) : undefined,
  }
}

/** undefined: not a pipeline. */
function routesReader(graph: RemoteGraph, look: () => Promise<RemoteGraph>): Routes | undefined {
  return graph.routes === undefined ? undefined : async () => (await look()).routes ?? []
}

/** Shows the job until it has ended, then its outcome. Returns the exit code of the command. */
export async function seeToItsEnd(
  runner: Runner,
  jobId: string,
  { json = false, allowDeadLetters = false }: DeadLetterFlags & { readonly json?: boolean },
): Promise<number> {
  const { name, flags, runningFlags, runsHere, log, early } = runner
  const shown = { flags, runningFlags, runsHere }
  const graph = await runner.graph(jobId)
  const routes = routesReader(graph, () => runner.graph(jobId))
  const { workflow } = await runner.job(jobId)
  const title = `${workflow}  job ${jobId}  in ${name}`
  const stream = json ? process.stderr : process.stdout
  await follow({
    jobs: runner,
    jobId,
    graph: toCoreGraph(graph),
    routes,
    title,
    stream,
    log,
    early,
    ...shown,
  })
  return report(runner, jobId, { json, allowDeadLetters, ...shown })
}
