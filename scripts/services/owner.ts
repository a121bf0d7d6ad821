/**
 * The user that a service runs as. PostgreSQL refuses to run as root, and no server that accepts commands
 * over a port should: as root, services run as an unprivileged user of the system; otherwise as the current
 * user.
 */
import { capture } from "./run.ts"

export interface Owner {
  readonly uid: number
  readonly gid: number
}

const CANDIDATES = ["postgres", "nobody"]

export async function serviceOwner(): Promise<Owner | null> {
  if (process.getuid?.() !== 0) return null
  for (const name of CANDIDATES) {
    const owner = await lookUp(name)
    if (owner) return owner
  }
  throw new Error(
    `running as root, but there is no user to run services as: create one of ${CANDIDATES.join(", ")}`,
  )
}

async function lookUp(name: string): Promise<Owner | null> {
  try {
    return { uid: Number(await capture("id", ["-u", name])), gid: Number(await capture("id", ["-g", name])) }
  } catch {
    return null
  }
}
