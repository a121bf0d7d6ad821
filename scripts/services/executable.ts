/** Finds programs in the folders of PATH. */
import { constants } from "node:fs"
import { access } from "node:fs/promises"
import { delimiter, join } from "node:path"

export const pathFolders = (): readonly string[] => (process.env.PATH ?? "").split(delimiter).filter(Boolean)

export async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  )
}

/** The first of the names that is found in PATH. */
export async function findExecutable(names: readonly string[]): Promise<string | null> {
  for (const name of names) {
    for (const folder of pathFolders()) {
      const file = join(folder, name)
      if (await isExecutable(file)) return file
    }
  }
  return null
}
