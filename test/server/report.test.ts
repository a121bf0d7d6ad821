import { createHash } from "node:crypto"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { beforeAll, expect, it, onTestFinished } from "vitest"
import { apply } from "../../src/core/apply/apply.ts"
import { readGraph } from "../../src/core/compiled-graph.ts"
import { type FactRecord, toFact } from "../../src/core/payloads.ts"
import { newJobState } from "../../src/core/state.ts"
import { graphView } from "../../src/core/view/view.ts"
import { silentLog } from "../../src/log.ts"
import { jobReport, type ReportOptions } from "../../src/server/report.ts"
import { type Server, startServer } from "../../src/server/server.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"

const script = 'document.title = JSON.parse(document.getElementById("umbra-data").textContent).job.job_id'
const style = "body { color: #123 }"
const template = `<!doctype html><html><head><style>${style}</style></head><body><!--umbra-data--><script type="module">${script}</script></body></html>`
const HOSTILE = "</script><script>alert(1)</script><!-- <img onerror=alert(1)>"

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "umbra-report-"))
  await writeFile(join(folder, "report.html"), template)
  return () => rm(folder, { recursive: true, force: true })
})

const echo = defineHandler({ name: "echo", run: (config: unknown) => config as never })

async function served(dashboard = folder): Promise<{ umbra: Umbra; server: Server; jobId: string }> {
  const umbra = await openUmbra("memory:", { handlers: [echo] })
  onTestFinished(() => umbra.close())
  const server = await startServer({
    umbra,
    host: "127.0.0.1",
    port: 0,
    version: "9.9.9",
    log: silentLog,
    dashboard,
  })
  onTestFinished(() => server.close())
  const nodes = [
    { id: "small", handler: "echo", config: { said: "{{ input.said }}" } },
    { id: "large", handler: "echo", config: { text: "{{ input.long }}" }, dependencies: ["small"] },
    { id: "each", handler: "echo", for_each: "{{ input.list }}", config: { value: "{{ item }}" } },
  ]
  const input = { said: HOSTILE, long: `begin ${"y".repeat(3000)} end-of-long`, list: [1, 2, 3] }
  const job = await umbra.submit({ name: "told", nodes } as never, input)
  await job.wait()
  return { umbra, server, jobId: job.id }
}

const dataIn = (html: string) => {
  const text = /<script type="application\/json" id="umbra-data">([^<]*)<\/script>/.exec(html)![1]!
  return { text, data: JSON.parse(text) }
}

it("is one page with the job, its graph and its facts, from which every moment can be folded", async () => {
  const { umbra, server, jobId } = await served()
  const answer = await fetch(`${server.url}/jobs/${jobId}/report`)
  expect(answer.status).toBe(200)
  expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8")
  expect(answer.headers.get("content-disposition")).toBe(`attachment; filename="umbra-${jobId}.html"`)
  const html = await answer.text()
  const { data } = dataIn(html)
  expect(data).toMatchObject({ format: 1, umbra: "9.9.9", payloads_kept: "preview", payloads: {} })
  expect(data.job).toMatchObject({ job_id: jobId, status: "COMPLETED" })
  const { facts } = umbra.queries
  expect(data.facts).toEqual((await facts.page(jobId, { limit: 1000 })).facts)
  const state = newJobState(readGraph(data.graph))
  for (const record of data.facts as FactRecord[]) {
    apply(state, toFact(record))
    const at = await facts.graphAt(jobId, { seq: record.seq })
    const { moment: _, ...expected } = at
    expect(graphView(state, { now: record.at })).toEqual(expected)
  }
})

it("keeps as much of inputs and outputs as was requested", async () => {
  const { server, jobId } = await served()
  const text = async (query: string) => (await fetch(`${server.url}/jobs/${jobId}/report${query}`)).text()
  const [none, preview, full] = [await text("?payloads=none"), await text(""), await text("?payloads=full")]
  for (const part of ["begin yyy", "img onerror", "end-of-long"]) expect(none, part).not.toContain(part)
  expect(dataIn(none).data.job.output).toBeNull()
  expect(JSON.stringify(dataIn(none).data.facts)).toContain('"count":3')
  expect(preview).toContain("begin yyy")
  expect(preview).not.toContain("end-of-long")
  expect(full).toContain("end-of-long")
  const { data } = dataIn(full)
  const large = data.facts.find(
    (fact: FactRecord) => fact.type === "node_completed" && "$payload" in (fact.output as object),
  )
  expect(data.payloads[`${large.seq}/output`].text).toContain("end-of-long")
  expect((await fetch(`${server.url}/jobs/${jobId}/report?payloads=all`)).status).toBe(400)
})

it("lets no text of a job become markup, and no script run but its own", async () => {
  const { server, jobId } = await served()
  const html = await (await fetch(`${server.url}/jobs/${jobId}/report?payloads=full`)).text()
  const { text, data } = dataIn(html)
  expect(text).not.toContain("<")
  expect(JSON.stringify(data)).toContain("<img onerror=alert(1)>")
  expect(html.match(/<script/g)).toHaveLength(2)
  const hash = (of: string) => createHash("sha256").update(of).digest("base64")
  const policy = /<head><meta http-equiv="Content-Security-Policy" content="([^"]*)">/.exec(html)![1]
  expect(policy).toContain(`script-src 'sha256-${hash(script)}';`)
  expect(policy).toContain(`style-src 'sha256-${hash(style)}';`)
  expect(policy).toContain("default-src 'none'")
  expect(policy).not.toMatch(/unsafe|http|connect-src/)
})

it("says so if it would be too large, or if the dashboard was not built", async () => {
  const { umbra, jobId } = await served()
  const { facts } = umbra.queries
  const job = await umbra.job(jobId)
  const graph = await facts.compiledGraph({ owner: job.owner, name: job.workflow, version: 1 })
  const [record] = (await facts.page(jobId, { limit: 1 })).facts
  async function* many() {
    for (let i = 0; i < 100_000; i++) yield Array(1000).fill(record)
  }
  const source = { job, graph, facts: many(), payload: async () => "null" }
  const options: ReportOptions = { folder, payloads: "full", version: "1", now: 0 }
  await expect(jobReport(source, options)).rejects.toMatchObject({
    code: "E648",
    message: expect.stringContaining("payloads=preview"),
  })
  const { server, jobId: other } = await served(join(folder, "missing"))
  const answer = await fetch(`${server.url}/jobs/${other}/report`)
  expect([answer.status, ((await answer.json()) as { code: string }).code]).toEqual([404, "E634"])
})
