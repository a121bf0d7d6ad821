/**
 * Makes the embedded database of a folder that has none: elsewhere, under another name, and then it is there whole. A
 * process that is killed half way leaves a folder that nobody takes for a database; the next one removes it.
 *
 * By a process of its own, if one can be started: making a database takes 500 MB, and of those 90 stayed with a process
 * that had done it in a thread (what was freed lay in pieces). Else by a thread.
 */
import { existsSync } from "node:fs"
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises"
import { basename, join } from "node:path"
import { startProcess } from "../thread.ts"
import { migrate } from "./migrate.ts"
import { PgliteDatabase } from "./pglite-database.ts"

const UNFINISHED = "making-"

export async function makePglite(folder: string): Promise<void> {
  const files = join(folder, "database")
  if (existsSync(files)) return
  // Tried again when it is not empty in the end: the maker of a killed process may have written on for a moment.
  const whole = { recursive: true, force: true, maxRetries: 10 }
  for (const left of await readdir(folder))
    if (left.startsWith(UNFINISHED)) await rm(join(folder, left), whole)
  // Made with mode 0700: the embedded database makes files that everybody may write to, and nobody else shall reach them.
  const making = await mkdtemp(join(folder, UNFINISHED))
  if (!(await madeByProcess(join(making, "database")))) await makeAt(join(making, "database"))
  await rename(join(making, "database"), files)
  await rm(making, { recursive: true, force: true })
}

export async function makeAt(files: string): Promise<void> {
  await rm(files, { recursive: true, force: true })
  await mkdir(files, { mode: 0o700 })
  const maker = new PgliteDatabase({ folder: files, label: "a new embedded database", retry: { tries: 1 } })
  try {
    await migrate(maker)
  } finally {
    await maker.close()
  }
}

/** No second, better compilation of a program that runs for seconds: 4.2 s of processor time, not 5.8, and about 100 MB less. */
const FLAGS = ["--liftoff-only"]

/** False: it could not, for whatever reason; who does it here will learn which. */
function madeByProcess(files: string): Promise<boolean> {
  // What is packed into a program of its own would start that program.
  if (!/^node(\.exe)?$/i.test(basename(process.execPath))) return Promise.resolve(false)
  return new Promise(resolve => {
    const maker = startProcess(new URL("./pglite-maker", import.meta.url), [files], FLAGS)
    maker.once("error", () => resolve(false))
    maker.once("exit", code => resolve(code === 0))
  })
}
