/** Artifacts in a folder or a database. */
import { Artifacts } from "../../artifacts/artifacts.ts"
import { readingMovedFacts } from "../../artifacts/moved-facts.ts"
import { configuredContentPlace, openContentStore } from "../../artifacts/open.ts"
import { artifactSettings } from "../../artifacts/settings.ts"
import { entries } from "../../client/http.ts"
import { openJournal } from "../../journal/open.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { Log } from "../../log.ts"
import type { UmbraOptions } from "../../umbra.ts"
import type { TargetArtifacts } from "./open.ts"
import type { Store } from "./store.ts"

/** A store for reading; large outputs may be in the content store. */
export async function openJournalAt(location: string, log: Log): Promise<Journal> {
  return readingMovedFacts(await openJournal(location, { log }), location)
}

/** The setting of an engine that takes over an open journal, which does not expose the location of its folder. */
export function contentAt(location: string): Pick<UmbraOptions, "artifacts"> {
  return { artifacts: { location: configuredContentPlace(location)?.location ?? null } }
}

export function storeArtifacts(owner: string, location: string, store: Store): TargetArtifacts {
  const opened = async () => {
    const settings = artifactSettings()
    const place = configuredContentPlace(location)
    const content = place && openContentStore(place)
    const { artifacts: rows } = await store.journal()
    return new Artifacts({ rows, content, location: place?.location ?? null, settings, now: Date.now })
  }
  return {
    put: async (name, body, type) => (await opened()).put(name, body, { owner, type }),
    get: async hash => (await opened()).get(hash, { owner }),
    list({ jobId, after: first, limit } = {}) {
      const ask = async (after?: string) => (await opened()).list({ owner, jobId, after, limit })
      return entries(ask, "artifacts", first)
    },
    remove: async (reference, { force } = {}) => (await opened()).remove(reference, { owner, force }),
    sweep: async ({ dryRun } = {}) => (await opened()).sweep({ dryRun }),
  }
}
