// A server, and a program elsewhere that uses it with umbra/client: submit, wait, stream, versions, errors.
// The same client runs in a browser. Run it: node examples/client.js
import { spawn } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { connect, UmbraClientError } from "umbra/client"

// `umbra serve` as a shell would start it, on a free port.
const data = await mkdtemp(join(tmpdir(), "umbra-example-"))
const umbraCommand = fileURLToPath(new URL("cli/main.js", import.meta.resolve("umbra")))
const serve = [umbraCommand, "serve", "--port", "0", "--data-dir", data]
const server = spawn(process.execPath, serve, { stdio: ["ignore", "pipe", "inherit"] })
const ended = new Promise(done => server.on("exit", done))
const [greeting] = await new Promise(done =>
  createInterface(server.stdout).once("line", line => done([line])),
)

const umbra = connect({ url: /http:\S+\d/.exec(greeting)[0] }) // token: "umbra_…" where the server asks for one

// A definition is stored first, once per client; a stored one is named: "invoice", "invoice@2", "invoice@stable".
const invoice = {
  name: "invoice",
  input: { type: "object", required: ["net"], properties: { net: { type: "number" } } },
  nodes: [{ id: "tax", handler: "transform", config: { value: "{{ input.net * 0.19 }}" } }],
  output: { gross: "{{ input.net + tax }}" },
}
const job = await umbra.submit(invoice, { net: 100 }, { labels: { customer: "Ada" } })
const { status, output } = await job.wait()
console.log(status, output)

// A submission that is sent twice, because its answer was lost or the program died, makes one job.
const key = { idempotencyKey: "invoice-2026-17" }
const [first, second] = [
  await umbra.submit("invoice", { net: 5 }, key),
  await umbra.submit("invoice", { net: 5 }, key),
]
console.log(first.id === second.id ? "one job" : "two jobs")

// What happens to a job, live. A lost connection is reopened, and the stream resumes after the last event.
const followed = await umbra.submit("invoice", { net: 1 })
for await (const event of followed.stream())
  if (event.type === "end") console.log("stream:", event.data.reason)

await umbra.workflows.setAlias("invoice", "stable", 1)
for await (const { workflow, workflow_version, labels } of umbra.jobs({ labels: { customer: "Ada" } }))
  console.log(`${workflow}@${workflow_version}`, labels)

try {
  await umbra.submit("invoice@stable", { net: "much" })
} catch (error) {
  if (error instanceof UmbraClientError) console.log(error.code, error.status)
}

server.kill("SIGTERM")
await ended
await rm(data, { recursive: true })
