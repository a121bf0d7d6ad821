/**
 * Metrics of this process for Prometheus. They cause no database queries. Until `/metrics` is requested they are plain
 * numbers.
 */
import type { FastifyInstance } from "fastify"
import { collectDefaultMetrics, type Metric, Registry } from "prom-client"
import { Histogram, secondsBounds } from "../metrics.ts"
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
  const taken = () => umbra.metrics()
  exposeJobs(registry, umbra, taken)
  exposeAttempts(registry, umbra, taken)
  exposePipelines(registry, taken)
  exposeStore(registry, umbra, taken)
  exposeStreams(registry, streams)
  exposeRequests(registry, app)
  return registry
}

type Taken = () => ReturnType<Umbra["metrics"]>

function exposeJobs(registry: Registry, umbra: Umbra, taken: Taken): void {
  expose(
    registry,
    { type: "gauge", name: "umbra_jobs", help: "Jobs in this process's memory, by state" },
    () => byLabel("status", taken().states().jobs),
  )
  expose(
    registry,
    { type: "gauge", name: "umbra_nodes", help: "Nodes of the jobs in this process's memory, by state" },
    () => byLabel("status", taken().states().nodes),
  )
  expose(
    registry,
    { type: "counter", name: "umbra_jobs_submitted_total", help: "Jobs accepted in this process" },
    () => [{ value: taken().engine.jobsSubmitted }],
  )
  expose(
    registry,
    { type: "counter", name: "umbra_jobs_ended_total", help: "Jobs that ended in this process, by state" },
    () => byLabel("status", Object.fromEntries(taken().engine.jobsEnded)),
  )
  expose(
    registry,
    {
      type: "histogram",
      name: "umbra_job_seconds",
      help: "Time from submission to end of jobs that ended in this process",
    },
    () => histogram("umbra_job_seconds", taken().engine.jobSeconds),
  )
  expose(
    registry,
    { type: "gauge", name: "umbra_partitions", help: "Partitions that this process owns" },
    () => [{ value: umbra.health().partitions }],
  )
}

function exposeAttempts(registry: Registry, umbra: Umbra, taken: Taken): void {
  const handlers = () => [...(taken().attempts?.handlers ?? [])]
  expose(
    registry,
    { type: "gauge", name: "umbra_queue_depth", help: "Attempts that wait for a slot of this worker" },
    () => [{ value: umbra.health().queued }],
  )
  expose(
    registry,
    { type: "gauge", name: "umbra_running_attempts", help: "Attempts that have a slot of this worker" },
    () => [{ value: umbra.health().running }],
  )
  const refused = "Tasks of this process's jobs that remote workers rejected"
  expose(registry, { type: "counter", name: "umbra_tasks_refused_total", help: refused }, () => [
    { value: umbra.health().refused },
  ])
  const wait = "umbra_queue_wait_seconds"
  expose(registry, { type: "histogram", name: wait, help: "Time that attempts waited for a slot" }, () => {
    const { attempts } = taken()
    return attempts === null ? [] : histogram(wait, attempts.waitSeconds)
  })
  const took = "umbra_handler_seconds"
  expose(registry, { type: "histogram", name: took, help: "Time that attempts took, by handler" }, () =>
    handlers().flatMap(([handler, { seconds }]) => histogram(took, seconds, { handler })),
  )
  expose(
    registry,
    { type: "counter", name: "umbra_attempts_total", help: "Attempts that ended, by handler and outcome" },
    () => handlers().flatMap(([handler, { outcomes }]) => byLabel("outcome", outcomes, { handler })),
  )
  expose(
    registry,
    { type: "counter", name: "umbra_retries_total", help: "Failed attempts that are retried" },
    () => [{ value: taken().engine.retries }],
  )
}

/** Labels are names in definitions: their number depends on the number of pipelines, not on the number of jobs. */
function exposePipelines(registry: Registry, taken: Taken): void {
  const byRoute = (values: (metrics: RouteMetrics, labels: Labels) => Value[]) => () =>
    taken()
      .pipelines.routes()
      .flatMap(metrics => values(metrics, { pipeline: metrics.pipeline, route: metrics.route }))
  const name = (rest: string) => `umbra_pipeline_${rest}`
  expose(
    registry,
    { type: "gauge", name: name("executions"), help: "Executions of pipelines that run in this process" },
    () => [{ value: taken().pipelines.executions }],
  )
  expose(
    registry,
    {
      type: "counter",
      name: name("messages_total"),
      help: "Messages done, and messages that failed permanently (dead letters), by pipeline and route",
    },
    byRoute(({ done, failed }, labels) => byLabel("outcome", { done, failed }, labels)),
  )
  expose(
    registry,
    {
      type: "counter",
      name: name("failed_tries_total"),
      help: "Failed deliveries of messages, including those that are retried, by pipeline and route",
    },
    byRoute(({ failedTries }, labels) => [{ value: failedTries, labels }]),
  )
  expose(
    registry,
    { type: "gauge", name: name("in_flight"), help: "Messages that adapters of this process are processing" },
    byRoute(({ inFlight }, labels) => [{ value: inFlight, labels }]),
  )
  expose(
    registry,
    {
      type: "gauge",
      name: name("queued"),
      help: "Messages that wait in queues of executions in this process",
    },
    byRoute(({ queued }, labels) => [{ value: queued, labels }]),
  )
  expose(
    registry,
    {
      type: "counter",
      name: name("breaker_changes_total"),
      help: "Number of times that circuit breakers opened and closed",
    },
    byRoute(({ opened: open, closed }, labels) => byLabel("state", { open, closed }, labels)),
  )
  expose(
    registry,
    { type: "gauge", name: name("breakers_open"), help: "Circuit breakers that are open now" },
    byRoute(({ openBreakers }, labels) => [{ value: openBreakers, labels }]),
  )
}

function exposeStreams(registry: Registry, streams: Streams): void {
  expose(registry, { type: "gauge", name: "umbra_streams", help: "Live streams that are open" }, () => [
    { value: streams.open },
  ])
  const dropped = "Clients of live streams that were disconnected because they did not read"
  expose(registry, { type: "counter", name: "umbra_streams_dropped_total", help: dropped }, () => [
    { value: streams.dropped },
  ])
}

function exposeStore(registry: Registry, umbra: Umbra, taken: Taken): void {
  const [facts, seconds] = ["umbra_append_facts", "umbra_append_seconds"]
  expose(registry, { type: "histogram", name: facts, help: "Facts of one append" }, () =>
    histogram(facts, taken().engine.appendFacts),
  )
  expose(
    registry,
    { type: "histogram", name: seconds, help: "Time from sending an append to its answer" },
    () => histogram(seconds, taken().engine.appendSeconds),
  )
  expose(
    registry,
    { type: "gauge", name: "umbra_workers", help: "Workers on this store at the last heartbeat" },
    () => byLabel("state", { ...umbra.workerCounts }),
  )
}

function exposeRequests(registry: Registry, app: FastifyInstance): void {
  const requests = new Map<string, { readonly labels: Labels; readonly seconds: Histogram }>()
  app.addHook("onResponse", (request, reply, done) => {
    const { method } = request
    const route = request.routeOptions.url ?? "none"
    const key = `${method} ${reply.statusCode} ${route}`
    let found = requests.get(key)
    if (found === undefined) {
      const labels = { method, route, status: String(reply.statusCode) }
      found = { labels, seconds: new Histogram(secondsBounds) }
      requests.set(key, found)
    }
    found.seconds.add(reply.elapsedTime / 1000)
    done()
  })
  const name = "umbra_http_request_seconds"
  expose(registry, { type: "histogram", name, help: "Time from a request to its answer" }, () =>
    [...requests.values()].flatMap(({ labels, seconds }) => histogram(name, seconds, labels)),
  )
}

function byLabel(label: string, amounts: Readonly<Record<string, number>>, more: Labels = {}): Value[] {
  return Object.entries(amounts).map(([name, value]) => ({ value, labels: { ...more, [label]: name } }))
}

function histogram(name: string, { bounds, counts, sum }: Histogram, labels: Labels = {}): Value[] {
  let count = 0
  const buckets = [...counts].map((own, index) => {
    count += own
    const le = index < bounds.length ? String(bounds[index]) : "+Inf"
    return { metricName: `${name}_bucket`, value: count, labels: { ...labels, le } }
  })
  return [
    ...buckets,
    { metricName: `${name}_sum`, value: sum, labels },
    { metricName: `${name}_count`, value: count, labels },
  ]
}

interface About {
  readonly type: "counter" | "gauge" | "histogram"
  readonly name: string
  readonly help: string
}

function expose(registry: Registry, about: About, values: () => Value[]): void {
  const metric = { ...about, get: async () => ({ ...about, values: values() }) }
  registry.registerMetric(metric as unknown as Metric)
}
