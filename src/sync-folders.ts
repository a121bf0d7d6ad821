import { open } from "node:fs/promises"

/** A file that was just made is there after a power failure only if its folder was synced. Windows does it by itself. */
export async function syncFolders(...folders: readonly string[]): Promise<void> {
  if (process.platform === "win32") return
  for (const folder of folders) {
    const handle = await open(folder, "r")
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  }
}
