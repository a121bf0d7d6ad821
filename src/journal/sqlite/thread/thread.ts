/**
 * The embedded database in a separate thread, so that a slow disk never blocks the event loop of the process.
 */
import { parentPort, workerData } from "node:worker_threads"
import { sentError } from "../errors.ts"
import { Maintenance } from "../maintenance.ts"
import { openFile } from "../open.ts"
import { createStores, execute } from "../ports.ts"
import {
  OPENED,
  receivedArguments,
  type ThreadData,
  type ThreadReply,
  type ThreadRequest,
} from "./transfer.ts"

const port = parentPort!
const { file, label, synchronous } = workerData as ThreadData

try {
  await serve()
} catch (error) {
  reply({ id: OPENED, error: sentError(error, label) })
  port.close()
}

async function serve(): Promise<void> {
  const connection = await openFile(file, synchronous)
  const stores = createStores(connection)
  const maintenance = new Maintenance(connection)
  port.on("message", (request: ThreadRequest) => {
    reply(answer(request))
    if (request.store === "close") port.close()
    else maintenance.afterRequest()
  })
  reply({ id: OPENED, result: null })

  function answer(request: ThreadRequest): ThreadReply {
    const { id, store } = request
    try {
      if (store !== "close") {
        const args = receivedArguments(request.verb, request.args)
        return { id, result: execute(stores, store, request.verb, args) }
      }
      maintenance.stop()
      connection.close()
      return { id, result: null }
    } catch (error) {
      return { id, error: sentError(error, label) }
    }
  }
}

function reply(message: ThreadReply): void {
  port.postMessage(message)
}
