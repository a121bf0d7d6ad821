/** Writes to the store of UMBRA_ARTIFACTS without end, and prints a line when 20 MB were taken. */
import { openContentStore } from "../../src/artifacts/open.ts"
import { pattern } from "./content.ts"

const store = openContentStore({ location: process.env.UMBRA_ARTIFACTS!, isTemporary: false })
const chunk = pattern(1024 * 1024)

async function* endless() {
  for (let taken = 1; ; taken++) {
    yield chunk
    if (taken === 20) console.log("20 MB")
    // So that a writer that nobody kills does not fill the disk.
    if (taken > 20) await new Promise(resolve => setTimeout(resolve, 100))
  }
}

await store.write("killed", endless(), { maxBytes: 1024 ** 3 })
