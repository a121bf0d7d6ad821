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
  readMs: amount("feed_read_ms", 10),
  lookAgainMs: wholeNumber("feed_look_again_ms", 1000),
  tellMs: amount("feed_tell_ms", 20),
  progressMs: amount("feed_progress_ms", 250),
  knownJobs: wholeNumber("feed_known_jobs", 10_000),
  catchUpFacts: wholeNumber("feed_catch_up_facts", 1000),
  catchUpLooked: wholeNumber("feed_catch_up_looked", 100_000),
}

export function feedSettings(given?: Partial<FeedSettings>): FeedSettings {
  return readSettings(feedTable, given)
}
