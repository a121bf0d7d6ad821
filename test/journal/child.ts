/**
 * A process of its own for tests: opens the journal, says so, and appends one fact after another to one job, printing
 * each seq once it is durable, until it is killed. With "open" as second argument it only opens and closes.
 */
import { openJournal } from "../../src/journal/open.ts"
import { batch, fact, hold, newId } from "./fixture.ts"

const [location = "", mode] = process.argv.slice(2)

try {
  const journal = await openJournal(location)
  if (mode === "open") {
    await journal.close()
    console.log("closed")
  } else {
    const held = await hold(journal)
    const jobId = newId()
    console.log(`opened ${jobId}`)
    for (let counter = 1; mode !== "hold"; counter++) {
      await journal.append(batch(held, { facts: [fact(held, counter, { jobId })] }))
      console.log(held.seq(counter))
    }
  }
} catch (error) {
  console.log(`failed ${(error as { code?: string }).code} ${(error as Error).message}`)
  process.exitCode = 1
}
