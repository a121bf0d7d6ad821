/** A private Redis on a free port of 127.0.0.1, in a temporary folder. By default it writes nothing to disk. */
import { once } from "node:events"
import { createConnection } from "node:net"
import { findExecutable } from "./executable.ts"
import { serviceOwner } from "./owner.ts"
import { freePort } from "./port.ts"
import { capture } from "./run.ts"
import { type Service, serviceFolder, startService } from "./service.ts"

const ANSWER_MS = 1_000

export interface RedisProgram {
  readonly command: string
  readonly version: string
}

export interface Redis extends Service {
  readonly url: string
  readonly port: number
  readonly version: string
}

export interface RedisOptions {
  /** Server settings, by name: `{ appendonly: "yes" }`. */
  readonly settings?: Readonly<Record<string, string>>
}

/** Returns the program, or what is missing. */
export async function findRedis(): Promise<RedisProgram | string> {
  const command = await findExecutable(["redis-server"])
  if (command === null) return "Redis (redis-server): it is not installed"
  const line = await capture(command, ["--version"])
  return { command, version: /v=(\S+)/.exec(line)?.[1] ?? line }
}

export async function startRedis(options: RedisOptions = {}): Promise<Redis> {
  const program = await findRedis()
  if (typeof program === "string") throw new Error(`install ${program}`)
  const owner = await serviceOwner()
  const folder = await serviceFolder("redis", owner)
  const port = await freePort()
  const service = await startService({
    name: "Redis",
    command: program.command,
    args: asFlags({
      port: String(port),
      bind: "127.0.0.1",
      save: "",
      appendonly: "no",
      dir: folder,
      ...options.settings,
    }),
    folder,
    owner,
    restartSignal: "SIGTERM",
    stopSignal: "SIGKILL",
    ready: async () => (await ping(port)) === "+PONG\r\n",
  })
  const url = `redis://127.0.0.1:${port}`
  return { ...service, url, port, version: program.version }
}

const asFlags = (settings: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])

/** The server's reply to PING, over a bare socket: no client library is needed to know that it is up. */
export async function ping(port: number): Promise<string> {
  const socket = createConnection({ host: "127.0.0.1", port })
  socket.setEncoding("utf8")
  try {
    socket.write("PING\r\n")
    const [answer] = await once(socket, "data", { signal: AbortSignal.timeout(ANSWER_MS) })
    return String(answer)
  } finally {
    socket.destroy()
  }
}
