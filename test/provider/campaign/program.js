/**
 * One life of a process with an engine, a worker, and a door for webhooks, on the built package:
 *
 *     node program.js TASK-FILE FROM TO STEP
 *
 * It says "door URL" when it is open, "reached N" when its jobs below N have ended, and "idle" when all of FROM,
 * FROM + STEP … below TO have; SIGTERM ends it.
 */
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import { httpProvider, openUmbra } from "../../../dist/index.js"

const [file, from, to, step] = process.argv.slice(2)
const { location, definition, secret, engine, workflows, jobs } = JSON.parse(readFileSync(file, "utf8"))
/** Jobs that this process waits for at once. */
const WINDOW = 50

const log = { debug() {}, info() {}, warn: tell, error: tell, child: () => log }
function tell(fields, message) {
  console.error(
    message,
    JSON.stringify(fields, (_, value) => (value instanceof Error ? value.message : value)),
  )
}

const umbra = await openUmbra(location, {
  providers: [httpProvider(definition, { allowPrivateAddresses: true })],
  providerSecrets: () => secret,
  engine,
  log,
})

const door = createServer(async (request, response) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  try {
    await umbra.webhooks.receive("fake", { body: Buffer.concat(chunks), headers: request.headers })
    response.writeHead(202).end()
  } catch (error) {
    response.writeHead(error.status ?? 500).end(String(error.message))
  }
})
await new Promise(resolve => door.listen(0, "127.0.0.1", resolve))
console.log(`door http://127.0.0.1:${door.address().port}/`)

let next = Number(from)
async function work() {
  while (next < Number(to)) {
    const index = next
    next += Number(step)
    const { workflow, input } = jobs[index]
    const idempotencyKey = `job-${index}`
    const job = await retrying(() => umbra.submit(workflows[workflow], input, { idempotencyKey }))
    await job.wait()
    tellReached(index)
  }
}

const ended = new Set()
let reached = Number(from)
function tellReached(index) {
  ended.add(index)
  const before = reached
  while (ended.delete(reached)) reached += Number(step)
  if (reached !== before) console.log(`reached ${reached}`)
}

/** E610: the partition is on its way to another process. */
async function retrying(submit) {
  for (;;) {
    try {
      return await submit()
    } catch (error) {
      if (error.code !== "E610" && error.code !== "E613") throw error
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  }
}

process.once("SIGTERM", async () => {
  door.closeAllConnections()
  door.close()
  await umbra.close()
  process.exit(0)
})
await Promise.all(Array.from({ length: WINDOW }, work))
console.log("idle")
