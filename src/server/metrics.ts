/**
 * Metrics of this process for Prometheus. They cause no database queries. Until `/metrics` is requested they are plain
 * numbers.
 */

import type { FastifyInstance } from "fastify"
import { collectDefaultMetrics, type Metric, Registry } from "prom-client"
import { valueIn } from "../core/maps.ts"
import { MetricHistogram, secondsBounds } from "../metrics.ts"
import type { RouteMetrics } from "../pipeline/metrics.ts"
import type { Umbra } from "../umbra.ts"
import type { Streams } from "./streams.ts"

type Labels = Readonly<Record<string, string>>

interface Value {
  readonly value: number
  readonly labels?: Labels
  readonly metricName?: string
}

export function measure(app: FastifyInstance, umbra: Umbra, streams: Streams): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const metrics = new Metrics(registry)
  const taken = () => umbra.metrics()
  exposeJobs(metrics, umbra, taken)
  exposeAttempts(metrics, umbra, taken)
  exposePipelines(metrics, taken)
  exposeStore(metrics, umbra, taken)
  metrics.gauge("umbra_streams", "Live streams that are open", () => streams.open)
  const dropped = "Clients of live streams that were disconnected because they did not read"
  metrics.counter("umbra_streams_dropped_total", dropped, () => streams.dropped)
  exposeRequests(metrics, app)
  return registry
}

type Taken = () => ReturnType<Umbra["metrics"]>

function exposeJobs(metrics: Metrics, umbra: Umbra, taken: Taken): void {
  metrics.gauge("umbra_jobs", "Jobs in this process's memory, by state", () =>
    byLabel("status", taken().states().jobs),
  )
  metrics.gauge("umbra_nodes", "Nodes of the jobs in this process's memory, by state", () =>
    byLabel("status", taken().states().nodes),
  )
  metrics.counter(
    "umbra_jobs_submitted_total",
    "Jobs accepted in this process",
    () => taken().engine.jobsSubmitted,
  )
  metrics.counter("umbra_jobs_ended_total", "Jobs that ended in this process, by state", () =>
    byLabel("status", Object.fromEntries(taken().engine.jobsEnded)),
  )
  const took =
    "Time from submission, or the start time of a delayed job, to end of jobs that ended in this process"
  metrics.histogram("umbra_job_seconds", took, () => [[taken().engine.jobSeconds]])
  metrics.counter(
    "umbra_schedule_fires_total",
    "Ticks, runs and backfills of schedules in this process, by outcome",
    () =>
      [...taken().engine.fires].map(([labels, value]) => {
        const [kind = "", outcome = ""] = labels.split(" ")
        return { value, labels: { kind, outcome } }
      }),
  )
  const late = "Time from when a tick was to fire until its job was stored"
  metrics.histogram("umbra_schedule_lateness_seconds", late, () => [[taken().engine.fireSeconds]])
  metrics.gauge("umbra_partitions", "Partitions that this process owns", () => umbra.health().partitions)
}

function exposeAttempts(metrics: Metrics, umbra: Umbra, taken: Taken): void {
  const handlers = () => [...(taken().attempts?.handlers ?? [])]
  const depth = "Attempts that wait for a slot of this worker"
  metrics.gauge("umbra_queue_depth", depth, () => umbra.health().queued)
  const running = "Attempts that have a slot of this worker"
  metrics.gauge("umbra_running_attempts", running, () => umbra.health().running)
  const refused = "Tasks of this process's jobs that remote workers rejected"
  metrics.counter("umbra_tasks_refused_total", refused, () => umbra.health().refused)
  metrics.histogram("umbra_queue_wait_seconds", "Time that attempts waited for a slot", () => {
    const { attempts } = taken()
    return attempts === null ? [] : [[attempts.waitSeconds]]
  })
  metrics.histogram("umbra_handler_seconds", "Time that attempts took, by handler", () =>
    handlers().map(([handler, { seconds }]) => [seconds, { handler }]),
  )
  metrics.counter("umbra_attempts_total", "Attempts that ended, by handler and outcome", () =>
    handlers().flatMap(([handler, { outcomes }]) => byLabel("outcome", outcomes, { handler })),
  )
  metrics.counter("umbra_retries_total", "Failed attempts that are retried", () => taken().engine.retries)
  metrics.counter(
    "umbra_jobs_without_reason_total",
    "Jobs without progress for which the engine found no reason: defects of the engine",
    () => taken().engine.jobsWithoutReason,
  )
}

/** Labels are names in definitions: their number depends on the number of pipelines, not on the number of jobs. */
function exposePipelines(metrics: Metrics, taken: Taken): void {
  const byRoute = (values: (metrics: RouteMetrics, labels: Labels) => Value[]) => () =>
    taken()
      .pipelines.routes()
      .flatMap(metrics => values(metrics, { pipeline: metrics.pipeline, route: metrics.route }))
  metrics.gauge(
    "umbra_pipeline_executions",
    "Executions of pipelines that run in this process",
    () => taken().pipelines.executions,
  )
  metrics.counter(
    "umbra_pipeline_messages_total",
    "Messages done, and messages that failed permanently (dead letters), by pipeline and route",
    byRoute(({ done, failed }, labels) => byLabel("outcome", { done, failed }, labels)),
  )
  metrics.counter(
    "umbra_pipeline_failed_tries_total",
    "Failed deliveries of messages, including those that are retried, by pipeline and route",
    byRoute(({ failedTries }, labels) => [{ value: failedTries, labels }]),
  )
  metrics.gauge(
    "umbra_pipeline_in_flight",
    "Messages that adapters of this process are processing",
    byRoute(({ inFlight }, labels) => [{ value: inFlight, labels }]),
  )
  metrics.gauge(
    "umbra_pipeline_queued",
    "Messages that wait in queues of executions in this process",
    byRoute(({ queued }, labels) => [{ value: queued, labels }]),
  )
  metrics.counter(
    "umbra_pipeline_breaker_changes_total",
    "Number of times that circuit breakers opened and closed",
    byRoute(({ opened: open, closed }, labels) => byLabel("state", { open, closed }, labels)),
  )
  metrics.gauge(
    "umbra_pipeline_breakers_open",
    "Circuit breakers that are open now",
    byRoute(({ openBreakers }, labels) => [{ value: openBreakers, labels }]),
  )
}

function exposeStore(metrics: Metrics, umbra: Umbra, taken: Taken): void {
  metrics.histogram("umbra_append_facts", "Facts of one append", () => [[taken().engine.appendFacts]])
  const took = "Time from sending an append to its answer"
  metrics.histogram("umbra_append_seconds", took, () => [[taken().engine.appendSeconds]])
  metrics.gauge("umbra_workers", "Workers on this store at the last heartbeat", () =>
    byLabel("state", { ...umbra.workerCounts }),
  )
}

function exposeRequests(metrics: Metrics, app: FastifyInstance): void {
  const requests = new Map<string, readonly [seconds: MetricHistogram, labels: Labels]>()
  app.addHook("onResponse", (request, reply, done) => {
    const { method } = request
    const route = request.route?.url ?? "none"
    const key = `${method} ${reply.statusCode} ${route}`
    const labels = () => ({ method, route, status: String(reply.statusCode) })
    const [seconds] = valueIn(requests, key, () => [new MetricHistogram(secondsBounds), labels()])
    seconds.add(reply.elapsedTime / 1000)
    done()
  })
  const help = "Time from a request to its answer"
  metrics.histogram("umbra_http_request_seconds", help, () => [...requests.values()])
}

function byLabel(label: string, amounts: Readonly<Record<string, number>>, more: Labels = {}): Value[] {
  return Object.entries(amounts).map(([name, value]) => ({ value, labels: { ...more, [label]: name } }))
}

class Metrics {
  readonly #registry: Registry

  constructor(registry: Registry) {
    this.#registry = registry
  }

  gauge(name: string, help: string, read: () => number | Value[]): void {
    this.#expose("gauge", name, help, read)
  }

  counter(name: string, help: string, read: () => number | Value[]): void {
    this.#expose("counter", name, help, read)
  }

  histogram(name: string, help: string, read: () => (readonly [MetricHistogram, Labels?])[]): void {
    this.#expose("histogram", name, help, () => read().flatMap(found => buckets(name, ...found)))
  }

  #expose(type: string, name: string, help: string, read: () => number | Value[]): void {
    const about = { type, name, help }
    const get = async () => {
      const found = read()
      return { ...about, values: typeof found === "number" ? [{ value: found }] : found }
    }
    this.#registry.registerMetric({ ...about, get } as unknown as Metric)
  }
}

function buckets(name: string, { bounds, counts, sum }: MetricHistogram, labels: Labels = {}): Value[] {
  let count = 0
  const found = [...counts].map((own, index) => {
    count += own
    const le = index < bounds.length ? String(bounds[index]) : "+Inf"
    return { metricName: `${name}_bucket`, value: count, labels: { ...labels, le } }
  })
  return [
    ...found,
    { metricName: `${name}_sum`, value: sum, labels },
    { metricName: `${name}_count`, value: count, labels },
  ]
}
