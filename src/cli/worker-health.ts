/** HTTP health checks of a worker: `/health` (it answers) and `/ready` (it accepts tasks). A worker has no other HTTP. */
import { createServer, type Server } from "node:http"
import { UmbraError } from "../errors.ts"
import type { FleetWorker } from "../open-worker.ts"

export function serveHealth(worker: FleetWorker, host: string, port: number): Promise<Server> {
  const server = createServer((request, response) => {
    const { id, notReady: reason, running, refused } = worker
    const ready = reason === null
    const path = request.url?.split("?")[0]
    const status = path === "/health" ? 200 : path === "/ready" ? (ready ? 200 : 503) : 404
    response.writeHead(status, { "content-type": "application/json" })
    response.end(
      status === 404 ? "{}" : JSON.stringify({ id, ready, ...(ready ? {} : { reason }), running, refused }),
    )
  })
  return new Promise((resolve, reject) => {
    server.once("error", error =>
      reject(
        new UmbraError(
          "E638",
          `Cannot listen on ${host} port ${port}: ${error.message}. Choose another port with --port.`,
          { cause: error },
        ),
      ),
    )
    server.listen(port, host, () => resolve(server))
  })
}
