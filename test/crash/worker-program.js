/**
 * A worker of a fleet with the handlers of the workload, on the built package: `node worker-program.js TASK-FILE`.
 * The file has `url` and `redis` (settings). Whoever started it kills it, or one of its handlers does.
 */
import { readFileSync } from "node:fs"
import { openWorker } from "../../dist/index.js"
import { loggedHandlers } from "./handlers.js"

const { url, redis } = JSON.parse(readFileSync(process.argv[2], "utf8"))
const worker = openWorker(url, {
  handlers: loggedHandlers(() => {}),
  redis,
  worker: { startedAfterSeconds: 0.1 },
})
process.once("SIGTERM", () => worker.close().then(() => process.exit(0)))
console.log("open")
