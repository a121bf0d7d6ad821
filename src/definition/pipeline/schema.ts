/**
 * The definition of the shape of a pipeline, a document with routes. As in ../shape/schema.ts, an optional key with the
 * value null counts as left out.
 */
import { z } from "zod"
import { idPattern, idWords } from "../names.ts"
import {
  amount,
  anyMapping,
  backoffFields,
  count,
  documentFields,
  flag,
  label,
  seconds,
} from "../shape/fields.ts"

/** The defaults of a route (P4); docs/reference/pipelines.md has the same table. */
export const routeDefaults = Object.freeze({
  run_on: "engine" as "engine" | "workers",
  concurrency: 8,
  prefetch: 64,
  /** No limit. */
  rate: null as number | null,
  backpressure: Object.freeze({ adaptive: true, min_concurrency: 1, tolerance: 2, max_queued: 10_000_000 }),
  error_handling: Object.freeze({
    retries: 3,
    backoff: Object.freeze({ initial_seconds: 1, max_seconds: 60, multiplier: 2, jitter: 0.1 }),
    circuit_breaker: Object.freeze({
      failure_rate: 0.5,
      min_calls: 10,
      window_seconds: 30,
      open_seconds: 15,
      trial_calls: 3,
    }),
    dead_letter: true,
  }),
})

const { backpressure: pressure, error_handling: handling } = routeDefaults
const breaker = handling.circuit_breaker

const name = (what: string) => z.string().regex(idPattern, idWords).describe(what)

export const adapterSchema = z.strictObject({
  type: label("Type of the adapter."),
  config: anyMapping(
    "The adapter's configuration. Strings may contain templates, which can read message, input, job and secrets.",
  ),
})

const backpressureSchema = z
  .strictObject({
    adaptive: flag(
      `true: concurrency is adapted to latency, between min_concurrency and concurrency. Default ${pressure.adaptive}.`,
    ),
    min_concurrency: count(
      `The smallest concurrency, if it is adaptive. Default ${pressure.min_concurrency}.`,
      { max: 100_000 },
    ),
    tolerance: amount(
      `Concurrency is lowered if a message takes this many times its usual latency. Default ${pressure.tolerance}.`,
      { min: 1, max: 1000 },
    ),
    max_queued: count(
      `With this many messages queued, the routes that write to the queue wait. Default ${pressure.max_queued}.`,
      { max: 1_000_000_000_000 },
    ),
  })
  .describe("Limits the load of a route.")

const breakerSchema = z
  .strictObject({
    failure_rate: z
      .number()
      .positive()
      .max(1)
      .nullish()
      .describe(`Share of failed calls, 0 to 1, at which it opens. Default ${breaker.failure_rate}.`),
    min_calls: count(`With fewer calls it stays closed. Default ${breaker.min_calls}.`, {
      max: 1_000_000,
    }),
    window_seconds: seconds(
      `Calls that started longer ago do not count. Default ${breaker.window_seconds}.`,
    ).nullish(),
    open_seconds: seconds(`How long it stays open. Default ${breaker.open_seconds}.`).nullish(),
    trial_calls: count(
      `Calls allowed after that time; all must succeed for it to close. Default ${breaker.trial_calls}.`,
      { max: 1000 },
    ),
  })
  .describe("Stops calling an adapter that keeps failing. false: it is always called.")

const errorHandlingSchema = z
  .strictObject({
    retries: count(`Retries of a message after the first attempt. Default ${handling.retries}.`, {
      min: 0,
      max: 1000,
    }),
    backoff: z
      .strictObject(backoffFields(handling.backoff))
      .nullish()
      .describe("How long a message waits before it is retried."),
    circuit_breaker: z.union([z.literal(false), breakerSchema]).nullish(),
    dead_letter: flag(
      `true: a message that failed permanently is kept and can be replayed; false: it fails the job. Default ${handling.dead_letter}.`,
    ),
  })
  .describe("What happens when an adapter fails.")

const queue = name("A queue. It needs no declaration; one route reads it.")

const routeFields = {
  name: name("Unique name of the route."),
  inbound: queue.describe("The queue that it reads; no other route may read it."),
  outbound: z
    .union([queue, z.record(z.string().regex(idPattern, idWords), queue)])
    .nullish()
    .describe("The queue for emitted messages, or one per kind: { default: chunks, link: pages }."),
  run_on: z
    .enum(["engine", "workers"])
    .nullish()
    .describe(
      `Where its adapters run: in the process that owns the job, or in the fleet's workers. Default ${routeDefaults.run_on}.`,
    ),
  concurrency: count(`Messages in flight at the same time, at most. Default ${routeDefaults.concurrency}.`, {
    max: 100_000,
  }),
  prefetch: count(
    `Messages kept ready in memory, besides those in flight. Default ${routeDefaults.prefetch}.`,
    { max: 1_000_000 },
  ),
  rate: z
    .number()
    .positive()
    .max(1_000_000)
    .nullish()
    .describe("Messages started per second, at most. Default: no limit."),
  backpressure: backpressureSchema.nullish(),
  error_handling: errorHandlingSchema.nullish(),
}

export const initSchema = z.strictObject({
  queue: queue.nullish().describe("The queue of the message. Default: that of the first route."),
  body: z
    .unknown()
    .optional()
    .describe("Any JSON; templates in it read input and job. Default: the job's input."),
})

const pipelineFields = {
  ...documentFields,
  name: label("Name of the pipeline."),
  max_hops: count(
    "How many routes a message and its predecessors may pass after an initial message. Required if routes form a cycle.",
    {
      max: 1_000_000_000,
    },
  ),
  max_dead_letters: z
    .number()
    .min(0)
    .max(1_000_000_000_000)
    .refine(most => most < 1 || Number.isInteger(most), "a whole number, or a share below 1")
    .nullish()
    .describe(
      "The job fails with more dead letters than this: a whole number, or (0.05) a share of the messages of any one route. Default: no limit.",
    ),
}

export const pipelineSchema = z
  .strictObject({
    ...pipelineFields,
    init: z
      .union([initSchema, z.array(initSchema).min(1)])
      .nullish()
      .describe("The initial message or messages of a job. Default: the job's input, for the first route."),
    routes: z
      .array(z.strictObject({ ...routeFields, adapters: z.array(adapterSchema).min(1) }))
      .min(1)
      .describe("Each route reads a queue and passes its messages through its adapters, in order."),
  })
  .meta({ title: "Umbra pipeline" })

/** The same without the entries of lists: they are checked one by one, so that each has its own messages. */
export const pipelineHeadSchema = z.strictObject({
  ...pipelineFields,
  init: z.unknown().optional(),
  routes: z.array(z.unknown()),
})
export const routeHeadSchema = z.strictObject({ ...routeFields, adapters: z.array(z.unknown()) })

export type PipelineDefinition = z.input<typeof pipelineSchema>
export type RouteDefinition = PipelineDefinition["routes"][number]
export type AdapterDefinition = z.input<typeof adapterSchema>
export type InitDefinition = z.input<typeof initSchema>
