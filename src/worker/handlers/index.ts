/** The handlers that every worker has (S8). */
import { defineHandler, type Handler } from "../handler.ts"
import { HttpClient } from "../http/client.ts"
import type { WorkerSettings } from "../settings.ts"
import { runPipeline, runWorkflow, waitForSignal, waitUntil } from "../waiting.ts"
import { callExternalService, type FindSubmissionRules } from "./call-external-service.ts"
import { llmService } from "./llm-service.ts"
import {
  inputSpec,
  outputSpec,
  pipelineSpec,
  sleepSpec,
  transformSpec,
  waitForSignalSpec,
  workflowSpec,
} from "./specs.ts"
import { storeMedia } from "./store-media.ts"

export function builtinHandlers(
  settings: Pick<WorkerSettings, "allowPrivateAddresses">,
  submissionRules?: FindSubmissionRules,
): Handler[] {
  const http = new HttpClient(settings)
  return [
    ...pureHandlers,
    ...[workflow, pipeline],
    ...[callExternalService(http, submissionRules), storeMedia(http), llmService(http)],
  ]
}

/** The handlers that only pass values on or wait. */
const input = defineHandler({ ...inputSpec, run: (_, ctx) => ctx.input })

/** An empty config counts as none: the engine sends `{}` where the definition has no config. */
const output = defineHandler({
  ...outputSpec,

  run: (config, ctx) => (config === undefined || Object.keys(config).length === 0 ? ctx.parents : config),
})

const transform = defineHandler({ ...transformSpec, run: config => config.value })

const sleep = defineHandler({
  ...sleepSpec,

  run({ seconds, until }, ctx) {
    const now = ctx.now()
    const wake = Math.max(now, until === undefined ? now + (seconds ?? 0) * 1000 : Date.parse(until))
    const output = { woke_at: new Date(wake).toISOString() }
    return wake === now ? output : waitUntil(wake, output)
  },
})

const waitForSignalHandler = defineHandler({
  ...waitForSignalSpec,

  run({ signal, timeout_seconds, default: otherwise }, ctx) {
    if (timeout_seconds === undefined) return waitForSignal(signal)
    return waitForSignal(signal, { until: ctx.now() + timeout_seconds * 1000, default: otherwise })
  },
})

const workflow = defineHandler({
  ...workflowSpec,
  run: config => runWorkflow(config.workflow, config.input ?? null),
})

const pipeline = defineHandler({
  ...pipelineSpec,
  run: config => runPipeline(config.pipeline, config.input ?? null),
})

/**
 * These have no side effects, cannot end the process, and take no longer than the rendering of their config,
 * which is bounded: they may run before their attempt is stored (docs/decisions/0024).
 */
export const pureHandlers: ReadonlySet<Handler> = new Set<Handler>([
  input,
  output,
  transform,
  sleep,
  waitForSignalHandler,
])
