import { amount, readSettings, type SettingTable, wholeNumber } from "../settings.ts"

/** The settings of live streams that do not depend on the transport (S10). */
export interface FeedSettings {
  /** The minimum time between two reads of the journal, however much happens. */
  readonly readMs: number
  /** Where other engines commit too: how long a missed notification of theirs may go unnoticed. */
  readonly lookAgainMs: number
  /** The minimum time between two notifications to other engines that follow the commits of this one. */
  readonly tellMs: number
  /** The minimum time between two progress events of one job. */
  readonly progressMs: number
  /** The number of jobs whose state is cached, so that their next fact needs no read of the journal. */
  readonly knownJobs: number
  /** The maximum number of facts that a resuming stream catches up on: facts of its own jobs, and facts of all jobs that are scanned. */
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

export function feedSettings(overrides?: Partial<FeedSettings>): FeedSettings {
  return readSettings(feedTable, overrides)
}
