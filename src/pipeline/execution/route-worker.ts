/**
 * The worker's side of routes with `run_on: workers`: takes a message through the adapters and returns the
 * result.
 */

import type { Json } from "../../core/json.ts"
import { UmbraError } from "../../errors.ts"
import { compileValue } from "../../template/index.ts"
import { defineHandler, type Handler, type HandlerContext } from "../../worker/handler.ts"
import type { SecretSource } from "../../worker/secrets.ts"
import { type ChainPlan, prepareRoute, routeSecrets } from "../registry/prepared-adapter.ts"
import type { AdapterRegistry } from "../registry/registry.ts"
import type { PipelineSettings } from "../settings.ts"
import type { OpensStorage } from "../storage.ts"
import { Chain, type ExecutionContext } from "./chain.ts"
import {
  adapterQueue,
  builtinQueue,
  type RouteAnswer,
  type RouteCall,
  type RouteReport,
} from "./remote-chain.ts"

interface RouteWorkerParts {
  readonly adapters: AdapterRegistry
  readonly secrets: SecretSource
  readonly settings: PipelineSettings
}

/** Messages that take less time report their calls only with their end. */
const REPORT_MS = 250

const noStorage: OpensStorage = {
  open: () => {
    throw notOnWorkers("context.storage")
  },
}

/** One queue for all built-in adapters, one for each adapter that is not built in. */
export function routeHandlers(parts: RouteWorkerParts): Handler[] {
  const queues = [builtinQueue, ...parts.adapters.own().map(adapterQueue)]
  return queues.map(name =>
    defineHandler({ name, run: (call: unknown, context) => runRoute(parts, call as RouteCall, context) }),
  )
}

async function runRoute(
  parts: RouteWorkerParts,
  call: RouteCall,
  context: HandlerContext,
): Promise<RouteAnswer> {
  const plan: ChainPlan = {
    name: call.route.name,
    adapters: call.route.adapters.map(({ type, config }) => ({ type, config: compileValue(config).value })),
    outbound: new Map(Object.entries(call.route.outbound)),
    rules: call.route.rules ?? 1,
    breaker: null,
  }
  const names = { input: call.input, job: call.job }
  const secrets = await routeSecrets([plan], parts.secrets, jobOwner(call))
  const prepared = prepareRoute(plan, { adapters: parts.adapters, secrets, names })
  mustNotGather(prepared.adapters.map(({ adapter }) => adapter))
  let reporting: NodeJS.Timeout | undefined
  const answered = new Promise<RouteAnswer>((resolve, reject) => {
    const chain = new Chain(
      { position: call.route.position, plan, prepared },
      workerContext(parts, call, context),
      {
        ended: (_, ending) => {
          // Without breakers only an abort ends a delivery that does not count.
          if (ending === null) reject(context.signal.reason ?? new Error("stopped"))
          else resolve({ invocations: ending.invocations, result: ending.result })
        },
        waits: () => {},
        resumed: () => {},
        breakerChanged: () => {},
      },
    )
    reporting = setInterval(reporter(chain, call.message.seq, context), REPORT_MS)
    chain.deliver(call.message)
  })
  return answered.finally(() => clearInterval(reporting))
}

/** Reports the calls of a message, if they have changed since the last report. */
function reporter(chain: Chain, seq: number, context: HandlerContext): () => void {
  let reported = ""
  return () => {
    const live = chain.live(seq)
    const state = `${live?.rows.length} ${live?.running?.emitted}`
    if (live === null || state === reported) return
    reported = state
    const report: RouteReport = { at: context.now(), ...live }
    context.preview(report as unknown as Json)
  }
}

/** Set by the engine, which built `job` from the fields of the task. */
const jobOwner = ({ job }: RouteCall) => (job as { readonly owner: string }).owner

function workerContext(
  { settings }: RouteWorkerParts,
  call: RouteCall,
  context: HandlerContext,
): ExecutionContext {
  return {
    jobId: context.jobId,
    owner: jobOwner(call),
    pipeline: call.pipeline,
    input: call.input,
    signal: context.signal,
    log: context.log,
    storage: noStorage,
    settings,
    now: () => context.now(),
    isSure: () => true,
    after: (ms, fire) => {
      const timer = setTimeout(fire, ms)
      return () => clearTimeout(timer)
    },
    submit: () => Promise.reject(notOnWorkers("context.submit")),
    formatKey: ({ route, seq }) =>
      route === call.message.route && seq === call.message.seq ? call.id : (call.parent ?? call.id),
    // The engine checks what it gets.
    artifactFault: () => Promise.resolve(null),
  }
}

function mustNotGather(adapters: readonly { readonly type: string; readonly gather?: unknown }[]): void {
  const gathers = adapters.find(({ gather }) => gather !== undefined)
  if (gathers !== undefined) throw notOnWorkers(`Adapter "${gathers.type}", which gathers messages,`)
}

function notOnWorkers(what: string): UmbraError {
  return new UmbraError(
    "E711",
    `${what} works only where the execution runs, not in a route with "run_on: workers". Put it into a separate route.`,
  )
}
