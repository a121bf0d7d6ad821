/**
 * Finds a port without a listener, outside the range that the kernel assigns to outgoing connections:
 * otherwise a client that connects to a server which is down could be assigned that very port and connect to
 * itself, and a server that is killed and restarted could find its port taken.
 */
import { randomInt } from "node:crypto"
import { createServer } from "node:net"

const FIRST = 20_000
const LAST = 32_000
const TRIES = 50

export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES; tries++) {
    const port = randomInt(FIRST, LAST)
    if (await isFree(port)) return port
  }
  throw new Error(`no free port found between ${FIRST} and ${LAST} on 127.0.0.1`)
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer()
    server.once("error", () => resolve(false))
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)))
  })
}
