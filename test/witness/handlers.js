/**
 * For `--handlers`: a handler that records when it really ran, what it logged and what it stored. Each process appends to files of its
 * own in the folder WITNESS_FOLDER. A record is one O_APPEND write, so it survives the death of its writer. Times are
 * CLOCK_MONOTONIC, which all processes of a machine share.
 *
 * - `runs-PID.log`, for each begin and end: "EVENT JOB NODE ITEM RUN PID NANOSECONDS".
 * - `kept-PID.log`, before a line is logged: "line JOB NODE ITEM FENCE NUMBER PID NANOSECONDS", and after content is stored: "put JOB
 *   HASH CONTENT", the content as base64.
 */
import { closeSync, openSync, writeSync } from "node:fs"
import { join } from "node:path"
import { defineHandler } from "../../dist/index.js"

const folder = process.env.WITNESS_FOLDER
const file = openSync(join(folder, `runs-${process.pid}.log`), "a")
const keptFile = openSync(join(folder, `kept-${process.pid}.log`), "a")
const LINE_MS = 100
let runs = 0

/** `config`: `ms` to run, and how many of the first executions that reach their end fail. */
export const observed = defineHandler({
  name: "observed",
  async run({ ms, fails, item = -1 }, ctx) {
    const { jobId, nodeId, signal, usage } = ctx
    const run = ++runs
    const say = lines(item, ctx)
    const write = event =>
      writeSync(
        file,
        `${event} ${jobId} ${nodeId} ${item} ${run} ${process.pid} ${process.hrtime.bigint()}\n`,
      )
    write("begin")
    usage({ runs: 1 })
    say()
    const saying = setInterval(say, LINE_MS)
    const wasAborted = await new Promise(resolve => {
      const timer = setTimeout(() => resolve(false), ms)
      signal.addEventListener("abort", () => {
        clearTimeout(timer)
        resolve(true)
      })
    })
    clearInterval(saying)
    say()
    if (wasAborted) {
      write("abort")
      throw new Error("aborted")
    }
    if (claimsFailure(`${jobId}-${nodeId}-${item}`, fails)) {
      write("fail")
      throw Object.assign(new Error("this execution was told to fail"), { retryable: true })
    }
    const files = await stored(item, ctx).catch(error => {
      write(signal.aborted ? "abort" : "fail")
      throw error
    })
    write("ok")
    return { ran: true, files }
  },
})

/** Every second message has two lines. */
function lines(item, { jobId, nodeId, fence, log }) {
  let count = 0
  return () => {
    const words = `${jobId} ${nodeId} ${item} ${fence} ${++count}`
    writeSync(keptFile, `line ${words} ${process.pid} ${process.hrtime.bigint()}\n`)
    log.info({ count }, count % 2 === 0 ? `${words}\nand a second line` : words)
  }
}

/** Content of its own, and content that all jobs of all owners store. */
async function stored(item, { jobId, nodeId, artifacts }) {
  const files = []
  for (const content of [`content of ${jobId} ${nodeId} ${item}`, "the same content in every job"]) {
    const file = await artifacts.put("file", content)
    writeSync(keptFile, `put ${jobId} ${file.artifact} ${Buffer.from(content).toString("base64")}\n`)
    files.push(file)
  }
  return files
}

/** True for the first `fails` executions of a task, whatever process runs them. */
function claimsFailure(task, fails) {
  for (let count = 0; count < fails; count++) {
    try {
      closeSync(openSync(join(folder, `fail-${task}-${count}`), "wx"))
      return true
    } catch {
      // Taken by an earlier execution.
    }
  }
  return false
}
