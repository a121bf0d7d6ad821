/** The handlers that only pass values on or wait. */
import { defineHandler, type Handler } from "../handler.ts"
import { runPipeline, runWorkflow, waitForSignal, waitUntil } from "../waiting.ts"
import {
  inputSpec,
  outputSpec,
  pipelineSpec,
  sleepSpec,
  transformSpec,
  waitForSignalSpec,
  workflowSpec,
} from "./specs.ts"

export const input = defineHandler({ ...inputSpec, run: (_, ctx) => ctx.input })

/** An empty config counts as none: the engine sends `{}` where the definition has no config. */
export const output = defineHandler({
  ...outputSpec,

  run: (config, ctx) => (config === undefined || Object.keys(config).length === 0 ? ctx.parents : config),
})

export const transform = defineHandler({ ...transformSpec, run: config => config.value })

export const sleep = defineHandler({
  ...sleepSpec,

  run({ seconds, until }, ctx) {
    const now = ctx.now()
    const wake = Math.max(now, until === undefined ? now + (seconds ?? 0) * 1000 : Date.parse(until))
    const output = { woke_at: new Date(wake).toISOString() }
    return wake === now ? output : waitUntil(wake, output)
  },
})

export const waitForSignalHandler = defineHandler({
  ...waitForSignalSpec,

  run({ signal, timeout_seconds, default: otherwise }, ctx) {
    if (timeout_seconds === undefined) return waitForSignal(signal)
    return waitForSignal(signal, { until: ctx.now() + timeout_seconds * 1000, default: otherwise })
  },
})

export const workflow = defineHandler({
  ...workflowSpec,
  run: config => runWorkflow(config.workflow, config.input ?? null),
})

export const pipeline = defineHandler({
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
