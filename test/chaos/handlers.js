/**
 * For `--handlers`: the handlers of the crash test's workload. Every process writes to a file of its own, in the folder
 * CHAOS_FOLDER, one line for each beginning and end: "start|end JOB NODE ATTEMPT TIME". A line is one O_APPEND write: it
 * is there whole or not at all, and survives the death of its writer.
 */
import { openSync, writeSync } from "node:fs"
import { join } from "node:path"
import { loggedHandlers } from "../crash/handlers.js"

const file = openSync(join(process.env.CHAOS_FOLDER, `executions-${process.pid}-${Date.now()}.log`), "a")

export const handlers = loggedHandlers((what, words) => writeSync(file, `${what} ${words} ${Date.now()}\n`))
