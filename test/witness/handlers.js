/**
 * For `--handlers`: a handler that records when it really ran. Each process appends to a file of its own in the folder
 * WITNESS_FOLDER, one line per begin and end: "EVENT JOB NODE ITEM RUN PID NANOSECONDS". A line is one O_APPEND write, so it
 * survives the death of its writer. The time is CLOCK_MONOTONIC, which all processes of a machine share.
 */
import { closeSync, openSync, writeSync } from "node:fs"
import { join } from "node:path"
import { defineHandler } from "../../dist/index.js"

const folder = process.env.WITNESS_FOLDER
const file = openSync(join(folder, `runs-${process.pid}.log`), "a")
let runs = 0

/** `config`: `ms` to run, and how many of the first executions that reach their end fail. */
export const observed = defineHandler({
  name: "observed",
  async run({ ms, fails, item = -1 }, { jobId, nodeId, signal, usage }) {
    const run = ++runs
    const write = event =>
      writeSync(
        file,
        `${event} ${jobId} ${nodeId} ${item} ${run} ${process.pid} ${process.hrtime.bigint()}\n`,
      )
    write("begin")
    usage({ runs: 1 })
    const wasAborted = await new Promise(resolve => {
      const timer = setTimeout(() => resolve(false), ms)
      signal.addEventListener("abort", () => {
        clearTimeout(timer)
        resolve(true)
      })
    })
    if (wasAborted) {
      write("abort")
      throw new Error("aborted")
    }
    if (claimsFailure(`${jobId}-${nodeId}-${item}`, fails)) {
      write("fail")
      throw Object.assign(new Error("this execution was told to fail"), { retryable: true })
    }
    write("ok")
    return { ran: true }
  },
})

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
