/** The build joins packages with our modules: an application beside it has copies of its own, and both work together. */
import { execFileSync } from "node:child_process"
import { resolve } from "node:path"
import { expect, it } from "vitest"
import { read } from "../shape/files.ts"

const root = resolve(import.meta.dirname, "../..")

const application = `
import { context, trace } from "@opentelemetry/api"
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks"
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base"
import { defineHandler, openUmbra, workflow } from "umbra"
import { z } from "zod"

const exporter = new InMemorySpanExporter()
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }))

const look = defineHandler({
  name: "look",
  config: z.strictObject({ city: z.string() }),
  output: z.object({ span: z.string() }),
  run: () => ({ span: trace.getActiveSpan().spanContext().spanId }),
})
const weather = workflow("weather", { input: z.object({ city: z.string().min(2) }) }, flow => {
  const found = flow.node("found", look, { city: flow.input.city })
  return { span: found.output.span }
})
const umbra = await openUmbra("memory:", { handlers: [look] })
const { status, output } = await (await umbra.submit(weather, { city: "Rome" })).wait()
const rejected = await umbra.submit(weather, { city: "R" }).catch(({ code }) => code)
const wrong = { name: "wrong", nodes: [{ id: "a", handler: "look", config: { town: "Rome" } }] }
const invalid = await umbra.submit(wrong).catch(({ code }) => code)
await umbra.close()
const spans = exporter.getFinishedSpans().map(span => [span.name, span.spanContext().spanId])
console.log(JSON.stringify({ status, output, rejected, invalid, spans }))
`

it("an application's zod and OpenTelemetry work with the built package's", () => {
  const options = ["--input-type=module", "-e", application]
  const printed = execFileSync(process.execPath, options, { cwd: root, encoding: "utf8" })
  const { status, output, rejected, invalid, spans } = JSON.parse(printed)
  expect({ status, rejected, invalid }).toEqual({ status: "COMPLETED", rejected: "E304", invalid: "E102" })
  expect(spans.map(([name]: [string]) => name).sort()).toEqual([
    "umbra.node",
    ...Array(3).fill("umbra.submit"),
  ])
  expect(spans).toContainEqual(["umbra.node", output.span])
})

it("the licence of every joined package is in the build", () => {
  const licences = read("dist/LICENSES.txt")
  for (const name of ["@fastify/error", "@opentelemetry/api", "fastify-type-provider-zod", "yaml", "zod"])
    expect(licences).toMatch(new RegExp(`^${name} \\d+\\.\\d+\\.\\d+ \\((MIT|ISC|Apache-2\\.0)\\)$`, "m"))
})
