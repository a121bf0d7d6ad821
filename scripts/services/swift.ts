/** A private server with the S3 protocol, on a free port of 127.0.0.1, in a temporary folder: OpenStack Swift. */
import { readFile } from "node:fs/promises"
import { serviceOwner } from "./owner.ts"
import { freePort } from "./port.ts"
import { capture } from "./run.ts"
import { type Service, serviceFolder, startService } from "./service.ts"

/** The distribution's, which has the distribution's packages. */
const PYTHON = "/usr/bin/python3"
const ACCESS_KEY = "umbra:test"
const SECRET_KEY = "a-secret-of-the-tests"

export interface SwiftProgram {
  readonly command: string
  readonly version: string
}

export interface Swift extends Service {
  /** With the credentials. */
  readonly url: string
  readonly port: number
  readonly version: string
}

/** Returns the program, or what is missing. */
export async function findSwift(): Promise<SwiftProgram | string> {
  try {
    const version = await capture(PYTHON, ["-c", "import swift; print(swift.__version__)"])
    return { command: PYTHON, version }
  } catch {
    return `OpenStack Swift (python3-swift): ${PYTHON} cannot import it`
  }
}

export async function startSwift(): Promise<Swift> {
  const program = await findSwift()
  if (typeof program === "string") throw new Error(`install ${program}`)
  const owner = await serviceOwner()
  const folder = await serviceFolder("swift", owner)
  const port = await freePort()
  // As text: the owner of the process may not read the checkout.
  const source = await readFile(new URL("swift-server.py", import.meta.url), "utf8")
  const service = await startService({
    name: "Swift",
    command: program.command,
    args: ["-c", source, folder, String(port), ACCESS_KEY, SECRET_KEY],
    folder,
    owner,
    restartSignal: "SIGTERM",
    stopSignal: "SIGKILL",
    ready: async () => (await fetch(`http://127.0.0.1:${port}/healthcheck`)).ok,
  })
  const url = `http://${encodeURIComponent(ACCESS_KEY)}:${encodeURIComponent(SECRET_KEY)}@127.0.0.1:${port}`
  return { ...service, url, port, version: program.version }
}
