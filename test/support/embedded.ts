/**
 * Embedded databases as a first start leaves them. Making one takes four to six seconds of processor time, copying one 0.4, so
 * the first test that needs one makes it for all. What a first start itself must do is proved where it is not used:
 * test/journal, test/crash, test/examples, test/cli/store.test.ts and test/server/stream-memory.test.ts.
 */
import { existsSync } from "node:fs"
import { cp, mkdir, mkdtemp, rename } from "node:fs/promises"
import { join } from "node:path"
import { openPglite } from "../../src/journal/pglite.ts"

/** Puts one into this folder, which is made if it is not there; answers the folder. */
export async function bringDatabase(folder: string): Promise<string> {
  const made = join(process.env.UMBRA_TEST_FOLDER!, "embedded")
  if (!existsSync(made)) await makeOnce(made)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await cp(join(made, "database"), join(folder, "database"), { recursive: true })
  return folder
}

async function makeOnce(made: string): Promise<void> {
  const making = await mkdtemp(`${made}-`)
  await (await openPglite(making)).close()
  await rename(making, made).catch((error: NodeJS.ErrnoException) => {
    // Another file's process was quicker, and its copy serves as well.
    if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error
  })
}
