/**
 * How commands on a folder find the server that has it, and authenticate there.
 *
 * 1. The lock has the address of the server. `server.json` repeats it, with a token that is valid until the server
 *    stops; only the user who runs the server can read the file, and that user could open the database itself.
 * 2. The token is sent only to the address in the same file: the lock can be written by anyone who may write the folder.
 * 3. A file that other users could read, or that another user owns, is ignored.
 */
import { constants } from "node:fs"
import { open, rename, rm, writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import { UmbraError } from "../../errors.ts"
import { announceServer, findHolder } from "../../journal/folder-lock.ts"

export interface LocalServer {
  readonly url: string
  readonly token: string
}

const fileIn = (folder: string): string => join(folder, "server.json")

/** Returns a function that removes the file. */
export async function publishServer(
  folder: string,
  { url, token }: LocalServer,
): Promise<() => Promise<void>> {
  const path = fileIn(resolve(folder))
  const draft = `${path}.${process.pid}`
  await rm(draft, { force: true })
  await writeFile(draft, JSON.stringify({ url, token }), { mode: 0o600, flag: "wx" })
  await rename(draft, path)
  await announceServer(resolve(folder), url)
  return () => rm(path, { force: true })
}

/** null: no server has the folder. Another process may have it; then opening it reports that. */
export async function findServer(folder: string): Promise<LocalServer | null> {
  const holder = await findHolder(resolve(folder))
  if (holder?.url === undefined || holder.url === null) return null
  const found = await readServer(fileIn(resolve(folder)))
  if (found === null)
    throw new UmbraError(
      "E503",
      `process ${holder.pid} of another user serves ${folder} at ${holder.url}. Use --server ${holder.url} with a token (UMBRA_TOKEN).`,
    )
  // Left by an earlier start: the current server is about to write its own.
  return found.url === holder.url ? { ...found, url: reachable(found.url) } : null
}

async function readServer(path: string): Promise<LocalServer | null> {
  const file = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0)).catch(() => null)
  try {
    if (file === null) return null
    const { uid, mode } = await file.stat()
    const own = process.getuid?.()
    // Windows has neither: there the permissions of the folder apply.
    if (own !== undefined && (uid !== own || (mode & 0o077) !== 0)) return null
    return JSON.parse(await file.readFile("utf8")) as LocalServer
  } catch {
    return null
  } finally {
    await file?.close()
  }
}

/** A server on all addresses is reached on loopback. */
function reachable(url: string): string {
  return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
}
