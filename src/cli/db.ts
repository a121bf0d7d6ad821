/** `umbra db restored`: after a database has been put back from a backup. */
import { openJournal } from "../journal/open.ts"
import { exitCode } from "./exit.ts"
import { inTurn } from "./place/in-turn.ts"
import { existingStore, type StoreOptions, storeName } from "./store.ts"

export async function restored(options: StoreOptions): Promise<number> {
  const location = existingStore(options)
  const journal = await inTurn(() => openJournal(location))
  try {
    await journal.restored()
  } finally {
    await journal.close()
  }
  process.stdout.write(
    `${storeName(location)} counts as restored: whatever engines wrote after the backup is refused from now on, ` +
      "and live streams begin anew. What was in progress goes on when an engine starts.\n",
  )
  return exitCode.ok
}
