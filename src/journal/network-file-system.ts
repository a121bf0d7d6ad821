import { statfs } from "node:fs/promises"
import type { Log } from "../log.ts"

/**
 * What statfs(2) of Linux reports, by number. FUSE is not here: sshfs has the same number as local file systems
 * (ntfs-3g, the layers of a container without root), which may be used.
 */
const names: ReadonlyMap<number, string> = new Map([
  [0x6969, "NFS"],
  [0x517b, "SMB"],
  [0xff534d42, "SMB"],
  [0xfe534d42, "SMB"],
  [0x01021997, "9p"],
  [0x00c36400, "Ceph"],
  [0x0bd00bd0, "Lustre"],
])

/** null: not a network file system, as far as its number tells. */
export function networkFileSystem(type: number): string | null {
  return names.get(type) ?? null
}

/** Other systems than Linux have other numbers. */
export async function warnOfNetworkFolder(folder: string, log: Log): Promise<void> {
  if (process.platform !== "linux") return
  // Whatever is wrong with the folder is reported when the database is opened.
  const found = await statfs(folder).catch(() => null)
  const name = found === null ? null : networkFileSystem(found.type)
  if (name === null) return
  log.warn(
    { folder, file_system: name },
    "the folder is on a network file system: if its locks or its fsync do not hold, a second machine, a lost connection or a crash of the file server can damage the database or lose acknowledged jobs. Use a folder on a local disk, or PostgreSQL",
  )
}
