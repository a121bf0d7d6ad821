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
  readMs: amount("feed_read_ms", 10),
  lookAgainMs: wholeNumber("feed_look_again_ms", 1000),
  tellMs: amount("feed_tell_ms", 20),
  progressMs: amount("feed_progress_ms", 250),
  knownJobs: wholeNumber("feed_known_jobs", 10_000),
  catchUpFacts: wholeNumber("feed_catch_up_facts", 1000),
  catchUpLooked: wholeNumber("feed_catch_up_looked", 100_000),
}

export function feedSettings(overrides?: Partial<FeedSettings>): FeedSettings {
  return readSettings(feedTable, overrides)
}
