/**
 * For commands that wait until a job has ended. On a server the job runs there and continues without this process. On a
 * store this process becomes an engine with the given handlers and providers, like `umbra run`.
 */
import type { Progress } from "../../core/view/view.ts"
import { existingStore } from "../input/store.ts"
import { type CommandLog, commandLog } from "../output/log.ts"
import { inTurn } from "./folder-wait.ts"
import { advised, serverFor } from "./open.ts"
import { attentively, type OwnEngine, type Runner, withOwnRunner } from "./own-runner.ts"
import { reconnectNotice } from "./server.ts"
import type { Target, TargetOptions } from "./target.ts"

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
