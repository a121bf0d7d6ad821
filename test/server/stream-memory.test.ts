/** S4: what open streams cost a server that has its database inside. */
import { readFileSync } from "node:fs"
import { connect, type Socket } from "node:net"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { freshFolder } from "../journal/folder.ts"
import { serve } from "./served.ts"

const STREAMS = 5000
/** Those that open at once: a queue of connections has an end. */
const AT_ONCE = 100

it.runIf(process.platform === "linux")(
  "S4 5,000 open streams on the embedded database, which was made at this start, take less than 400 MB",
  async () => {
    const { process: server, url } = await serve({
      location: join(await freshFolder(), "new"),
      remove: async () => {},
    })
    const before = memoryOf(server.pid)
    const sockets: Socket[] = []
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
    })
    while (sockets.length < STREAMS) {
      const more = Array.from({ length: AT_ONCE }, () => connect(Number(new URL(url).port), "127.0.0.1"))
      sockets.push(...more)
      await Promise.all(more.map(begun))
    }
    const after = memoryOf(server.pid)
    console.log(`memory: ${before} MB at rest, ${after} MB with ${STREAMS} streams`)
    expect(before).toBeLessThan(260)
    expect(after).toBeLessThan(400)
    for (const socket of sockets) expect(socket.destroyed).toBe(false)
  },
  240_000,
)

function begun(socket: Socket): Promise<void> {
  socket.write("GET /jobs/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
  return new Promise((resolve, reject) => {
    let text = ""
    socket.once("error", reject).on("data", bytes => {
      text = (text + bytes).slice(-10_000)
      if (text.includes("event: snapshot")) resolve()
    })
  })
}

/** Resident, in MB, as the kernel counts it. */
function memoryOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8")
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024)
}
