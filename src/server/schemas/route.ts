/** A route of a running pipeline, in the graph of its job. */
import { z } from "zod"

const count = z.number().int().min(0)

const routeExample = {
  name: "fetch",
  inbound: "pages",
  outbound: { default: "chunks", link: "pages" },
  adapters: [{ type: "http_fetch", breaker: "closed" }],
  queued: 120,
  in_flight: 8,
  waiting: 2,
  done: 4711,
  failed: 1,
  failed_tries: 9,
  dead_lettered: 1,
  rate: 85.4,
  latency_ms: 93.2,
  concurrency: 8,
}

export const route = z
  .object({
    name: z.string(),
    inbound: z.string().meta({ description: "The queue that it reads." }),
    outbound: z.record(z.string(), z.string()).meta({ description: "Queues by kind of message." }),
    adapters: z.array(
      z.object({
        type: z.string(),
        breaker: z
          .enum(["closed", "open", "half_open"])
          .nullable()
          .meta({ description: "null: the adapter has no breaker, or the execution does not run." }),
      }),
    ),
    queued: count,
    in_flight: count.meta({
      description:
        "Messages that adapters are processing, in any attempt, and messages that wait to be gathered.",
    }),
    waiting: count.meta({ description: "Messages that wait for their next attempt." }),
    done: count,
    failed: count.meta({
      description: "Messages that failed permanently: dead letters, and those that failed the job.",
    }),
    failed_tries: count.meta({
      description: "Failed deliveries, including those of messages that are retried.",
    }),
    dead_lettered: count.meta({
      description: "Messages that failed permanently and were kept as dead letters.",
    }),
    rate: z.number().meta({ description: "Recent messages per second." }),
    latency_ms: z.number().meta({ description: "Recent time of one message through all adapters." }),
    concurrency: count.nullable().meta({
      description: "How many messages may be in flight right now; null: the execution does not run.",
    }),
  })
  .meta({ id: "Route", examples: [routeExample] })
