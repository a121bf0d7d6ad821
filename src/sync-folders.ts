import { open } from "node:fs/promises"

/** A new file survives a power failure only if its folder was synced. Windows does this by itself. */
export async function syncFolders(...folders: readonly string[]): Promise<void> {
  if (process.platform === "win32") return
  for (const folder of folders) await sync(folder, "r")
}

export const syncFile = (file: string): Promise<void> => sync(file, "r+")

async function sync(path: string, flags: string): Promise<void> {
  const handle = await open(path, flags)
  await handle.sync().finally(() => handle.close())
}
