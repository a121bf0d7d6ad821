/**
 * One life of a traced process, on the built package: opens the store at URL, submits one job under TRACEPARENT unless it is
 * given JOB, and writes every span that ends to standard output as a line of JSON.
 *
 *     node program.js URL submit TRACEPARENT     hangs in the second node, saying "stuck JOB"
 *     node program.js URL resume JOB             waits for the job and ends
 */

import { context, trace } from "@opentelemetry/api"
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks"
import { BasicTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base"
import { defineHandler, openUmbra } from "../../dist/index.js"

const [url, what, argument] = process.argv.slice(2)

const exporter = {
  export(spans, done) {
    for (const span of spans) {
      const { name, attributes, parentSpanContext } = span
      const { traceId, spanId } = span.spanContext()
      const line = { name, traceId, spanId, parent: parentSpanContext?.spanId ?? null, attributes }
      process.stdout.write(`${JSON.stringify(line)}\n`)
    }
    done({ code: 0 })
  },
  shutdown: async () => {},
}
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
const spanProcessors = [new SimpleSpanProcessor(exporter)]
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors }))

const stuck = defineHandler({
  name: "stuck",
  run: (_, { jobId }) => {
    if (what === "resume") return "done"
    process.stdout.write(`stuck ${jobId}\n`)
    return new Promise(() => {})
  },
})
const umbra = await openUmbra(url, { handlers: [stuck] })
const flow = {
  name: "traced",
  nodes: [
    { id: "first", handler: "transform", config: { value: 1 } },
    { id: "second", handler: "stuck", dependencies: ["first"] },
  ],
}
if (what === "submit") await umbra.submit(flow, null, { traceparent: argument })
else {
  await umbra.wait(argument)
  await umbra.close()
}
