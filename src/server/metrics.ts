/** What this process knows of itself, for Prometheus. Nothing is counted in the database for it. */
import type { FastifyInstance } from "fastify"
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client"
import type { Umbra } from "../umbra.ts"
import type { Streams } from "./streams.ts"

const seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

export function measure(app: FastifyInstance, umbra: Umbra, streams: Streams): Registry {
  const registers = [new Registry()]
  const registry = registers[0]!
  collectDefaultMetrics({ register: registry })
  const requests = new Histogram({
    name: "umbra_http_request_seconds",
    help: "Time from a request to its answer",
    labelNames: ["method", "route", "status"],
    buckets: seconds,
    registers,
  })
  const ended = new Counter({
    name: "umbra_jobs_ended_total",
    help: "Jobs that ended in this process",
    labelNames: ["status"],
    registers,
  })
  const took = new Histogram({
    name: "umbra_job_seconds",
    help: "Time from submission to the end of jobs that ended in this process",
    buckets: [...seconds, 300, 1800, 7200],
    registers,
  })
  umbra.onJobEnded(({ status, seconds: time }) => {
    ended.inc({ status })
    took.observe(time)
  })
  const gauge = (name: string, help: string, value: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(value())
      },
    })
  gauge("umbra_live_jobs", "Jobs in this process's memory", () => umbra.vitals().liveJobs)
  gauge("umbra_partitions", "Partitions that this process owns", () => umbra.vitals().partitions)
  gauge("umbra_streams", "Live streams that are open", () => streams.open)
  new Counter({
    name: "umbra_streams_dropped_total",
    help: "Clients of live streams that were dropped because they did not read",
    registers,
    collect() {
      this.reset()
      this.inc(streams.dropped)
    },
  })
  app.addHook("onResponse", async (request, reply) => {
    if (request.routeOptions.config.isStream && reply.statusCode === 200) return
    const { method } = request
    const route = request.routeOptions.url ?? "none"
    requests.observe({ method, route, status: String(reply.statusCode) }, reply.elapsedTime / 1000)
  })
  return registry
}
