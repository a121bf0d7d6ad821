/** A route of a running pipeline, as its job's graph shows it. */
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
          .meta({ description: "null: it has none, or the execution does not run." }),
      }),
    ),
    queued: count,
    in_flight: count.meta({
      description:
        "Messages that adapters have in hand, in their first try or a later one, and those that wait to be gathered.",
    }),
    waiting: count.meta({ description: "Messages that wait for the time of another try." }),
    done: count,
    failed: count.meta({
      description: "Messages that failed for good: dead letters, and those that failed the job.",
    }),
    failed_tries: count.meta({
      description: "Deliveries that failed, those of messages that are tried again included.",
    }),
    dead_lettered: count.meta({ description: "Messages that failed for good and were kept." }),
    rate: z.number().meta({ description: "Messages a second, lately." }),
    latency_ms: z.number().meta({ description: "Of one message through all adapters, lately." }),
    concurrency: count
      .nullable()
      .meta({ description: "How many may be in flight right now; null: the execution does not run." }),
  })
  .meta({ id: "Route", examples: [routeExample] })
