/**
 * One life of a process under test, on the built package: opens the store, goes on with what earlier lives left, submits
 * what is still missing, and writes down what it knows. Whoever started it kills it at some point.
 *
 *     node program.js TASK-FILE FROM TO STEP
 *
 * It says "open" when it is open, "begun" when the first message is delivered, and "idle" when every job FROM,
 * FROM + STEP … below TO has ended; SIGTERM ends it.
 * executions.log: "start|end JOB NODE ATTEMPT PID"; messages.log: "JOB MESSAGE ADAPTER ATTEMPT PID TIME";
 * acknowledged.log: "submitted|ended INDEX JOB STATUS".
 * A line is one O_APPEND write: it is there whole or not at all, and survives the death of its writer.
 */
import { openSync, readFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import { openUmbra } from "../../dist/index.js"
import { keptIn, loggedHandlers } from "./handlers.js"
import { loggedAdapters } from "./pipelines/adapters.js"

const [file, from, to, step] = process.argv.slice(2)
const task = JSON.parse(readFileSync(file, "utf8"))
const executions = openSync(join(task.folder, "executions.log"), "a")
const messages = openSync(join(task.folder, "messages.log"), "a")
const acknowledged = openSync(join(task.folder, "acknowledged.log"), "a")
/** Jobs that this process waits for at once. */
const WINDOW = task.window ?? 20

const log = { debug() {}, info() {}, warn: tell, error: tell, child: () => log }
function tell(fields, message) {
  console.error(
    message,
    JSON.stringify(fields, (_, value) => (value instanceof Error ? value.message : value)),
  )
}

let hasBegun = false
function begun() {
  if (!hasBegun) console.log("begun")
  hasBegun = true
}

const umbra = await openUmbra(task.location, {
  handlers: loggedHandlers(
    (what, words) => writeSync(executions, `${what} ${words} ${process.pid}\n`),
    task.artifacts === undefined ? null : keptIn(join(task.folder, "kept")),
  ),
  ...(task.artifacts === undefined ? {} : { artifacts: task.artifacts }),
  adapters: loggedAdapters(lines => {
    const at = Date.now()
    const isHeld = process.env.UMBRA_TEST_HOLD === "1" && !hasBegun
    writeSync(messages, lines.map(line => `${line} ${process.pid} ${at}\n`).join(""))
    begun()
    return isHeld
  }),
  engine: task.engine,
  worker: task.worker ?? {},
  pipeline: task.pipeline,
  log,
})
console.log("open")
// Those that a node of another one runs must be there before it.
for (const workflow of task.workflows) await umbra.register(workflow)

const known = new Map()
for (const line of readFileSync(join(task.folder, "acknowledged.log"), "utf8").split("\n")) {
  const [what, index, id] = line.split(" ")
  if (what === "submitted") known.set(Number(index), id)
  else if (what === "ended") known.set(Number(index), null)
}

let next = Number(from)
async function work() {
  for (; next < Number(to); ) {
    const index = next
    next += Number(step)
    if (known.get(index) !== null) await one(index)
  }
}

async function one(index) {
  const id = await submitted(index)
  const { status } = await umbra.wait(id)
  writeSync(acknowledged, `ended ${index} ${id} ${status}\n`)
}

/** What was acknowledged is waited for; now and then it is submitted once more, and must be the same job. */
async function submitted(index) {
  const before = known.get(index)
  if (before !== undefined && index % 5 !== 0) return before
  const { id } = await retrying(() =>
    umbra.submit(
      task.workflows[task.jobs[index]],
      { index, never: false },
      { idempotencyKey: `job-${index}` },
    ),
  )
  if (before !== undefined && before !== id) throw new Error(`job ${index} was ${before} and is now ${id}`)
  if (before === undefined) writeSync(acknowledged, `submitted ${index} ${id}\n`)
  return id
}

/** E610: the partition is on its way to another process. */
async function retrying(submit) {
  for (;;) {
    try {
      return await submit()
    } catch (error) {
      if (error.code !== "E610") throw error
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  }
}

let isClosing = false
process.once("SIGTERM", async () => {
  isClosing = true
  await umbra.close()
  process.exit(0)
})
await Promise.all(Array.from({ length: WINDOW }, work)).catch(error => {
  if (!isClosing) throw error
})
setInterval(() => {}, 1000)
begun()
console.log("idle")
