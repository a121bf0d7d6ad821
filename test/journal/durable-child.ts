/** Opens a new folder, appends facts one after another and writes "acknowledged N" to standard output after each, then closes. */
import { writeSync } from "node:fs"
import { openFolder } from "../../src/journal/sqlite/folder.ts"
import { batch, fact, hold } from "./fixture.ts"

const [folder = "", synchronous] = process.argv.slice(2)
const journal = await openFolder(folder, { synchronous: synchronous === "normal" ? "normal" : "full" })
const held = await hold(journal)
for (let counter = 1; counter <= 20; counter++) {
  await journal.append(batch(held, { facts: [fact(held, counter)] }))
  writeSync(1, `acknowledged ${counter}\n`)
}
await journal.close()
