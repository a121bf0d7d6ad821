/**
 * Prints the source files, and the number of their lines, that run between a worker's report that a node completed and the
 * dispatch of the next node: V8's precise coverage. Arguments: the folder of the compiled sources, the folder of the store.
 */
import { readFileSync } from "node:fs"
import { Session } from "node:inspector"
import { fileURLToPath, pathToFileURL } from "node:url"

const [, , sources, store] = process.argv
const dist = pathToFileURL(`${sources}/`).href
const { LocalBroker } = await import(`${dist}broker/local.js`)
const { TaskReports } = await import(`${dist}engine/owner/reports.js`)
const { defineHandler, openUmbra } = await import(`${dist}index.js`)
const session = new Session()
session.connect()

function post(method, params) {
  let answer
  session.post(method, params, (error, value) => {
    if (error) throw error
    answer = value
  })
  return answer
}

/** One job that is measured, after enough others that nothing is done for the first time. */
let measured = null
/** The coverage of several such jobs: a timer of the engine may run during one of them. */
const found = []
const { finished } = TaskReports.prototype
TaskReports.prototype.finished = function (task, ...rest) {
  if (task.jobId === measured && task.nodeId === "a") post("Profiler.takePreciseCoverage")
  return finished.call(this, task, ...rest)
}
const { dispatch } = LocalBroker.prototype
LocalBroker.prototype.dispatch = function (task) {
  if (task.jobId === measured && task.nodeId === "b") found.push(post("Profiler.takePreciseCoverage").result)
  return dispatch.call(this, task)
}

post("Profiler.enable")
post("Profiler.startPreciseCoverage", { callCount: true, detailed: true })
let pass
const step = defineHandler({ name: "step", run: () => ({ x: 1 }) })
const held = defineHandler({
  name: "held",
  run: () => new Promise(resolve => (pass = () => resolve({ x: 1 }))),
})
const umbra = await openUmbra(store, { handlers: [step, held] })
const workflow = handler => ({
  name: handler,
  nodes: [
    { id: "a", handler },
    { id: "b", handler: "step", config: { value: "{{ a.x }}" }, dependencies: ["a"] },
  ],
})
for (let i = 0; i < 50; i++) await (await umbra.submit(workflow("step"))).wait()
for (let i = 0; i < 5; i++) {
  const job = await umbra.submit(workflow("held"))
  const ended = job.wait()
  await new Promise(resolve => setTimeout(resolve, 200))
  measured = job.id
  pass()
  await ended
}
await umbra.close()

const walks = found.map(scripts =>
  scripts
    .filter(({ url }) => url.startsWith(dist))
    .map(({ url, functions }) => ({ file: url.slice(dist.length), lines: coveredLines(url, functions) }))
    .filter(({ lines }) => lines > 0),
)
walks.sort((a, b) => a.length - b.length)
console.log(JSON.stringify(walks[0]))

/** Lines of code, without comments and closing brackets, of which a part ran. */
function coveredLines(url, functions) {
  const text = readFileSync(fileURLToPath(url), "utf8")
  const ran = new Uint8Array(text.length)
  const ranges = functions.flatMap(found => found.ranges)
  ranges.sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset)
  for (const { startOffset, endOffset, count } of ranges) ran.fill(count > 0 ? 1 : 0, startOffset, endOffset)
  const code = text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, comment => comment.replaceAll(/[^\n]/g, " "))
  let position = 0
  let lines = 0
  for (const line of code.split("\n")) {
    const isCode = /[^\s{}()\][;,]/.test(line)
    if (isCode && ran.subarray(position, position + line.length).includes(1)) lines++
    position += line.length + 1
  }
  return lines
}
