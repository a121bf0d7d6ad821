import { UmbraError } from "../errors.ts"
import { isPostgres } from "./location.ts"
import type { Journal } from "./port.ts"
import { openPostgres } from "./postgres.ts"
import { type JournalOptions, journalSettings } from "./settings.ts"
import { openFolder } from "./sqlite/folder.ts"
import { openMemory } from "./sqlite/memory.ts"

/** `memory:`, the path of a folder, or `postgres://…`. Makes and migrates what is not there yet. */
export async function openJournal(location: string, given: JournalOptions = {}): Promise<Journal> {
  const options = { ...journalSettings(), ...given }
  if (location === "memory:") return openMemory()
  if (isPostgres(location)) return openPostgres(location, options)
  // Two letters at least: C:\data is a path.
  const scheme = /^([a-z][a-z0-9+.-]+):/i.exec(location)?.[1]
  if (location.trim() === "" || scheme !== undefined) {
    const found = scheme === undefined ? "an empty location" : `a location that begins with "${scheme}:"`
    throw new UmbraError(
      "E504",
      `${found} is not known: write memory:, the path of a folder (./data), or postgres://USER:PASSWORD@HOST/DATABASE`,
    )
  }
  return openFolder(location, options)
}
