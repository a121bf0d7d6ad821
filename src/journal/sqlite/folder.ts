/** The journal in a folder, without a server: the file `umbra.db`, in a separate thread. */
import { constants, existsSync } from "node:fs"
import { access, mkdir, stat } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { UmbraError } from "../../errors.ts"
import { type Log, silentLog } from "../../log.ts"
import { syncFolders } from "../../sync-folders.ts"
import { lockFolder } from "../folder-lock.ts"
import { DATABASE_FILE } from "../location.ts"
import { warnOfNetworkFolder } from "../network-file-system.ts"
import type { Journal } from "../port/journal.ts"
import { type RetryOptions, retryDefaults } from "../retry.ts"
import type { Synchronous } from "./open.ts"
import { createJournal } from "./ports.ts"
import { ThreadClient } from "./thread/client.ts"

export interface FolderOptions {
  readonly retry?: RetryOptions
  readonly synchronous?: Synchronous
  readonly log?: Log
}

export async function openFolder(path: string, options: FolderOptions = {}): Promise<Journal> {
  const folder = resolve(path)
  await makeFolder(folder)
  refuseOldFolder(folder)
  await warnOfNetworkFolder(folder, options.log ?? silentLog)
  const label = `the embedded database in ${folder}`
  const retry = { ...retryDefaults, ...options.retry }
  const file = join(folder, DATABASE_FILE)
  const client = new ThreadClient({ file, label, retry, synchronous: options.synchronous ?? "full" })
  const onLost = () => client.abandon("was taken over by another process; this one must stop")
  // The permissions may suffice and the file system still reject new files.
  const lock = await lockFolder(folder, { onLost }).catch((error: unknown) => {
    throw error instanceof UmbraError ? error : unusable(folder, error)
  })
  try {
    await client.open()
    const call = client.call.bind(client)
    const partitions = ((await call("journal", "readPartitions", [])) as unknown[]).length
    return createJournal({
      call,
      capabilities: { label, partitions, retry },
      close: async () => {
        await client.close()
        await lock.release()
      },
    })
  } catch (error) {
    await client.close()
    await lock.release()
    throw error
  }
}

export function refuseOldFolder(folder: string): void {
  const old = join(folder, "database")
  if (!existsSync(join(old, "PG_VERSION"))) return
  throw new UmbraError(
    "E505",
    `the folder ${folder} holds a database of an earlier version of Umbra, which this version does not read. Choose another folder; if its jobs are no longer needed, remove ${old}.`,
  )
}

async function makeFolder(folder: string): Promise<void> {
  try {
    await makeWithParents(folder)
    await access(folder, constants.R_OK | constants.W_OK)
  } catch (error) {
    throw unusable(folder, error)
  }
  if (!(await stat(folder)).isDirectory()) throw unusable(folder, new Error("it is a file"))
}

/**
 * Not with `recursive`: where a folder cannot be created although its parent exists (/proc), Node 20 never
 * returns.
 */
async function makeWithParents(folder: string): Promise<void> {
  const parent = dirname(folder)
  if ((await make(folder)) !== "no parent" || parent === folder) return
  await makeWithParents(parent)
  if ((await make(folder)) === "no parent") throw new Error("no folder can be created there")
}

async function make(folder: string): Promise<"made" | "there" | "no parent"> {
  try {
    await mkdir(folder, { mode: 0o700 })
    await syncFolders(dirname(folder))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === "ENOENT") return "no parent"
    if (code === "EEXIST") return "there"
    throw error
  }
  return "made"
}

function unusable(folder: string, error: unknown): UmbraError {
  const reason = (error as Error).message
  return new UmbraError("E504", `the folder ${folder} cannot be used: ${reason}. Choose a writable one.`, {
    cause: error,
  })
}
