import { amount, readSettings, type SettingTable, wholeNumber } from "../settings.ts"

/** The figures of live streams that do not depend on how they travel (S10). */
export interface FeedSettings {
  /** Between two reads of the journal, however much happens. */
  readonly readMs: number
  /** Where other engines commit too: how long their news may be missed. */
  readonly lookAgainMs: number
  /** How often another engine that follows is told of what is committed here. */
  readonly tellMs: number
  /** How often the progress of one job is told. */
  readonly progressMs: number
  /** Jobs whose state is kept, so that the next fact of theirs needs no look at the journal. */
  readonly knownJobs: number
  /** Facts that a stream may have missed and still get: of its own jobs, and of everybody's that are looked at. */
  readonly catchUpFacts: number
  readonly catchUpLooked: number
}

export const feedTable: SettingTable<FeedSettings> = {
  readMs: amount("UMBRA_FEED_READ_MS", 10),
  lookAgainMs: wholeNumber("UMBRA_FEED_LOOK_AGAIN_MS", 1000),
  tellMs: amount("UMBRA_FEED_TELL_MS", 20),
  progressMs: amount("UMBRA_FEED_PROGRESS_MS", 250),
  knownJobs: wholeNumber("UMBRA_FEED_KNOWN_JOBS", 10_000),
  catchUpFacts: wholeNumber("UMBRA_FEED_CATCH_UP_FACTS", 1000),
  catchUpLooked: wholeNumber("UMBRA_FEED_CATCH_UP_LOOKED", 100_000),
}

export function feedSettings(given?: Partial<FeedSettings>): FeedSettings {
  return readSettings(feedTable, given)
}
