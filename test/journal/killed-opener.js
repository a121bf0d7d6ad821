/**
 * Opens the embedded database of a folder and is killed in the midst of it: as soon as the database has made its lock file,
 * before it has written to it.
 */
import fs from "node:fs"
import { PGlite } from "@electric-sql/pglite"

const make = fs.writeFileSync
fs.writeFileSync = (path, ...rest) => {
  make(path, ...rest)
  if (String(path).endsWith("postmaster.pid")) process.kill(process.pid, "SIGKILL")
}
await PGlite.create(process.argv[2])
