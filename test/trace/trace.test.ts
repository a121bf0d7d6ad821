/** OpenTelemetry spans, with an SDK as a user would register it. */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { context, SpanStatusCode, trace } from "@opentelemetry/api"
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks"
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base"
import { afterAll, beforeEach, describe, expect, it, onTestFinished } from "vitest"
import { httpProvider } from "../../src/provider/http-provider.ts"
import { activeTraceparent, isTraceparent } from "../../src/trace.ts"
import { root, startUmbra } from "../cli/umbra.ts"
import { broken, flow, handler, open } from "../engine/stage.ts"
import { openStage } from "../server/stage.ts"
import { freshDatabase } from "../support/services.ts"
import { threaded } from "./threaded.ts"

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736"
const caller = "00f067aa0ba902b7"
const traceparent = `00-${traceId}-${caller}-01`

const exporter = new InMemorySpanExporter()

function register() {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  const spanProcessors = [new SimpleSpanProcessor(exporter)]
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors }))
}

function unregister() {
  trace.disable()
  context.disable()
}

beforeEach(() => {
  exporter.reset()
  unregister()
  register()
})
afterAll(unregister)

const named = (name: string): ReadableSpan[] => exporter.getFinishedSpans().filter(span => span.name === name)
const idOf = (span: ReadableSpan | undefined) => span?.spanContext().spanId
const parentOf = (span: ReadableSpan | undefined) => span?.parentSpanContext?.spanId

describe("spans", () => {
  it("a tick of a schedule is a trace of its own, and names schedule and tick", async () => {
    const umbra = await open({ handlers: [handler("fine", () => null)] })
    await umbra.register(flow([{ id: "a", handler: "fine" }]))
    await umbra.schedules.put("s", { workflow: "flow", every: "1s" })
    await expect.poll(async () => (await umbra.schedules.fires("s")).fires.length).toBeGreaterThan(0)
    await umbra.schedules.pause("s")
    const { fires } = await umbra.schedules.fires("s")
    const range = { from: "2026-01-01T00:00:00Z", to: "2026-01-01T00:00:01Z" }
    const { bulk_id } = await umbra.schedules.backfill("s", range)
    await umbra.wait(bulk_id)
    const { ticks } = await umbra.schedules.ticks("s", range)
    for (const { tick, job_id } of [fires.at(-1)!, ticks[0]!]) {
      await umbra.wait(job_id!)
      const [submit] = named("umbra.submit").filter(({ attributes }) => attributes["umbra.job_id"] === job_id)
      expect(submit?.attributes).toMatchObject({
        "umbra.schedule": "s",
        "umbra.tick": tick,
        "umbra.workflow": "flow",
      })
      expect(parentOf(submit)).toBeUndefined()
      const nodes = named("umbra.node").filter(({ attributes }) => attributes["umbra.job_id"] === job_id)
      expect(nodes.map(parentOf)).toEqual([idOf(submit)])
    }
  })

  it("S2 a submission is a child of the traceparent, every attempt a child of the submission", async () => {
    let tries = 0
    const flaky = handler("flaky", () => {
      if (++tries === 1) throw new Error("the first time it fails")
      return "then it works"
    })
    const umbra = await open({ handlers: [flaky] })
    const retry = { max_attempts: 3, initial_seconds: 0.01, max_seconds: 0.02, jitter: 0 }
    const job = await umbra.submit(flow([{ id: "a", handler: "flaky", retry }]), null, { traceparent })
    expect((await job.wait()).status).toBe("COMPLETED")
    const [submit] = named("umbra.submit")
    expect(submit?.spanContext().traceId).toBe(traceId)
    expect(parentOf(submit)).toBe(caller)
    expect(submit?.attributes).toMatchObject({ "umbra.job_id": job.id, "umbra.workflow": "flow" })
    const nodes = named("umbra.node")
    expect(nodes.map(parentOf)).toEqual([idOf(submit), idOf(submit)])
    expect(nodes.map(({ attributes }) => attributes)).toMatchObject([
      {
        "umbra.job_id": job.id,
        "umbra.workflow": "flow",
        "umbra.workflow_version": 1,
        "umbra.node": "a",
        "umbra.handler": "flaky",
        "umbra.attempt": 1,
        "umbra.outcome": "failed",
        "umbra.error_code": "E401",
      },
      { "umbra.attempt": 2, "umbra.outcome": "completed" },
    ])
    expect(nodes.map(({ status }) => status.code)).toEqual([SpanStatusCode.ERROR, SpanStatusCode.UNSET])
  })

  it("S2 a handler runs inside its span, synchronous or not; what follows does not", async () => {
    const seen: (string | undefined)[] = []
    const look = () => seen.push(trace.getActiveSpan()?.spanContext().spanId)
    const quick = handler("quick", () => look())
    const slow = handler("slow", async () => {
      await new Promise(resolve => setImmediate(resolve))
      look()
      return trace.getTracer("user").startActiveSpan("inner", span => span.end())
    })
    const umbra = await open({ handlers: [quick, slow] })
    const nodes = [
      { id: "a", handler: "quick" },
      { id: "b", handler: "slow", dependencies: ["a"] },
    ]
    await (await umbra.submit(flow(nodes), null, { traceparent })).wait()
    const attempts = named("umbra.node")
    expect(seen).toEqual(attempts.map(idOf))
    expect(parentOf(named("inner")[0])).toBe(idOf(attempts[1]))
    // Both are the submission's, not one the other's.
    expect(new Set(attempts.map(parentOf)).size).toBe(1)
  })

  it("S2 a handler in a thread is in its span too", async () => {
    const umbra = await open({ handlers: [threaded] })
    const job = await umbra.submit(flow([{ id: "a", handler: "threaded" }]), null, { traceparent })
    const { output } = await job.wait()
    expect(output).toEqual({ a: { traceId, spanId: idOf(named("umbra.node")[0]) } })
  })

  it("a submission inside a span is that span's child, whatever traceparent says", async () => {
    const umbra = await open()
    await trace.getTracer("user").startActiveSpan("outer", async span => {
      await (await umbra.submit(flow([{ id: "a", handler: "input" }]), 1, { traceparent })).wait()
      span.end()
    })
    expect(parentOf(named("umbra.submit")[0])).toBe(idOf(named("outer")[0]))
  })

  it("a refused submission is an error with its code; a wrong traceparent is refused", async () => {
    const umbra = await open({ handlers: [broken] })
    await expect(umbra.submit("nothing", null, { traceparent })).rejects.toMatchObject({ code: "E305" })
    expect(named("umbra.submit")[0]).toMatchObject({
      attributes: { "umbra.error_code": "E305" },
      status: { code: SpanStatusCode.ERROR },
    })
    const wrong = umbra.submit(flow([{ id: "a", handler: "input" }]), null, { traceparent: "00-0-0-01" })
    await expect(wrong).rejects.toMatchObject({ code: "E309" })
  })

  it("S8 call_external_service and llm_service send the traceparent of their attempt on", async () => {
    const sent: (string | undefined)[] = []
    const service = createServer((request, response) => {
      sent.push(request.headers.traceparent as string | undefined)
      response.setHeader("content-type", "application/json")
      response.end(JSON.stringify({ choices: [{ message: { content: "hi" } }] }))
    }).listen(0, "127.0.0.1")
    await new Promise(resolve => service.once("listening", resolve))
    onTestFinished(() => void service.close())
    const url = `http://127.0.0.1:${(service.address() as AddressInfo).port}`
    const umbra = await open({ worker: { allowPrivateAddresses: true } })
    const nodes = [
      { id: "call", handler: "call_external_service", config: { url } },
      {
        id: "ask",
        handler: "llm_service",
        config: { base_url: url, model: "m", prompt: "hi" },
        dependencies: ["call"],
      },
    ]
    expect((await (await umbra.submit(flow(nodes))).wait()).status).toBe("COMPLETED")
    const attempts = named("umbra.node").map(span => span.spanContext())
    expect(sent).toEqual(attempts.map(found => `00-${found.traceId}-${found.spanId}-01`))
    unregister()
    sent.length = 0
    expect((await (await umbra.submit(flow(nodes), null, { traceparent })).wait()).status).toBe("COMPLETED")
    expect(sent).toEqual([undefined, undefined])
  })

  it("X1 the submit of a declarative provider sends it too, and the attempt's outcome says that it was submitted", async () => {
    const sent: (string | undefined)[] = []
    const service = createServer((request, response) => {
      sent.push(request.headers.traceparent as string | undefined)
      response.setHeader("content-type", "application/json")
      response.end(JSON.stringify({ id: "op-1", status: "done" }))
    }).listen(0, "127.0.0.1")
    await new Promise(resolve => service.once("listening", resolve))
    onTestFinished(() => void service.close())
    const url = `http://127.0.0.1:${(service.address() as AddressInfo).port}`
    const poll = { url: `${url}/{{ external_id }}`, status: "{{ body.status }}", done: ["done"], failed: [] }
    const definition = {
      name: "acme",
      submit: { url, external_id: "{{ body.id }}" },
      poll,
      poll_seconds: [0.01],
    }
    const providers = [httpProvider(definition, { allowPrivateAddresses: true })]
    const umbra = await open({ providers })
    const nodes = [{ id: "a", handler: "external", provider: "acme" }]
    expect((await (await umbra.submit(flow(nodes), null, { traceparent })).wait()).status).toBe("COMPLETED")
    const [attempt] = named("umbra.node")
    expect(attempt?.attributes["umbra.outcome"]).toBe("submitted")
    expect(sent[0]).toBe(`00-${traceId}-${idOf(attempt)}-01`)
  })

  it("S2 POST /jobs and /jobs/bulk take the header; one that cannot be read is as none", async () => {
    const stage = await openStage()
    onTestFinished(() => stage.close())
    await stage.ask("/workflows", { method: "POST", body: flow([{ id: "a", handler: "input" }]) })
    const post = (path: string, body: object, header: string) =>
      stage.ask(path, { method: "POST", body, headers: { traceparent: header } })
    expect((await post("/jobs?wait=20", { workflow: "flow" }, traceparent)).status).toBe(201)
    expect((await post("/jobs/bulk", { jobs: [{ workflow: "flow" }] }, traceparent)).status).toBe(200)
    expect(named("umbra.submit").map(parentOf)).toEqual([caller, caller])
    expect((await post("/jobs?wait=20", { workflow: "flow" }, "nonsense")).status).toBe(201)
    expect(parentOf(named("umbra.submit")[2])).toBeUndefined()
  })

  it("without an SDK the traceparent is kept nevertheless, for later processes with one", async () => {
    unregister()
    const umbra = await open()
    const job = await umbra.submit(flow([{ id: "nap", handler: "sleep", config: { seconds: 0.2 } }]), null, {
      traceparent,
    })
    expect(activeTraceparent()).toBeUndefined()
    register()
    await job.wait()
    const { facts } = await umbra.queries.fold(job.id)
    expect(facts[0]?.fact).toMatchObject({ traceparent })
    expect(named("umbra.submit")).toEqual([])
  })
})

it("S2 after a kill, in another process, attempts are children of the same submission", async () => {
  const { url, drop } = await freshDatabase()
  onTestFinished(drop)
  const main = join(root, "test/trace/program.js")
  const first = startUmbra([url, "submit", traceparent], { main })
  onTestFinished(() => first.kill("SIGKILL"))
  await first.wrote(/stuck \S+\n[\s\S]*umbra.submit|umbra.submit[\s\S]*stuck \S+\n/)
  first.kill("SIGKILL")
  const before = (await first.ended).stdout
  const job = /stuck (\S+)/.exec(before)![1]!
  const after = (await startUmbra([url, "resume", job], { main }).ended).stdout
  const spans = [...before.split("\n"), ...after.split("\n")]
    .filter(line => line.startsWith("{"))
    .map(line => JSON.parse(line))
  const submit = spans.find(({ name }) => name === "umbra.submit")
  expect(submit).toMatchObject({ traceId, parent: caller })
  const nodes = spans.filter(({ name }) => name === "umbra.node")
  expect(nodes.map(({ attributes }) => [attributes["umbra.node"], attributes["umbra.outcome"]])).toEqual([
    ["first", "completed"],
    ["second", "completed"],
  ])
  for (const node of nodes) expect(node).toMatchObject({ traceId, parent: submit.spanId })
  expect(nodes[1].attributes["umbra.fence"]).toBe(2)
})

it.each([
  [traceparent, true],
  [`01-${traceId}-${caller}-01-more`, true],
  [`ff-${traceId}-${caller}-01`, false],
  [`00-${"0".repeat(32)}-${caller}-01`, false],
  [`00-${traceId}-${"0".repeat(16)}-01`, false],
  [traceparent.toUpperCase(), false],
  [`${traceparent}\n`, false],
  ["", false],
  [undefined, false],
])("takes %j for a traceparent: %s", (text, expected) => {
  expect(isTraceparent(text)).toBe(expected)
})
