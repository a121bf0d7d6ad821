/**
 * For `--handlers`: the handlers of the crash test's workload. Every process writes to a file of its own, in the folder
 * CHAOS_FOLDER, one line for each beginning and end: "start|end JOB NODE ATTEMPT TIME". A line is one O_APPEND write: it
 * is there whole or not at all, and survives the death of its writer.
 */
import { openSync, writeSync } from "node:fs"
import { join } from "node:path"
import { defineHandler } from "../../dist/index.js"
import { keptIn, loggedHandlers } from "../crash/handlers.js"

const file = openSync(join(process.env.CHAOS_FOLDER, `executions-${process.pid}-${Date.now()}.log`), "a")

const write = (what, words) => writeSync(file, `${what} ${words} ${Date.now()}\n`)

/** Runs until it is told to stop, and writes down when that was. */
export const patient = defineHandler({
  name: "patient",
  run(_config, { jobId, nodeId, fence: attempt, signal }) {
    write("start", `${jobId} ${nodeId} ${attempt}`)
    return new Promise(resolve => {
      signal.addEventListener("abort", () => {
        write("abort", `${jobId} ${nodeId} ${attempt}`)
        resolve(null)
      })
    })
  },
})

export const handlers = loggedHandlers(write, keptIn(join(process.env.CHAOS_FOLDER, "kept")))
