import { UmbraError } from "../errors.ts"
import { isPostgres } from "./location.ts"
import type { Journal } from "./port/journal.ts"
import { type JournalOptions, journalSettings } from "./settings.ts"
import { openFolder } from "./sqlite/folder.ts"

/** Opens `memory:`, the path of a folder, or `postgres://…`. Creates or migrates the store as needed. */
export async function openJournal(location: string, given: JournalOptions = {}): Promise<Journal> {
  const options = { ...journalSettings(), ...given }
  // Each branch loads only its own store: commands on a folder do not wait 40 ms for the driver of
  // PostgreSQL.
  if (location === "memory:") {
    const { openMemory } = await import("./sqlite/memory.ts")
    return openMemory()
  }
  if (isPostgres(location)) {
    const { openPostgres } = await import("./postgres/open.ts")
    return openPostgres(location, options)
  }
  // At least two letters: C:\data is a path.
  const scheme = /^([a-z][a-z0-9+.-]+):/i.exec(location)?.[1]
  if (location.trim() === "" || scheme !== undefined) {
    const found = scheme === undefined ? "an empty location" : `a location that begins with "${scheme}:"`
    throw new UmbraError(
      "E504",
      `${found} is not supported: write memory:, the path of a folder (./data), or postgres://USER:PASSWORD@HOST/DATABASE`,
    )
  }
  return openFolder(location, options)
}
