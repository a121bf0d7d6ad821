import { amount, type SettingsOf, settingsReader, wholeNumber } from "../settings.ts"

export const feedTable = {
  /** The minimum time between two reads of the journal, however much happens. */
  readMs: amount("feed_read_ms", 10),
  /** On a shared store: the longest delay of another engine's change whose notification was lost. */
  pollMs: { ...wholeNumber("feed_poll_ms", 1000), former: "feed_look_again_ms" },
  /** The minimum time between two notifications to other engines that follow the commits of this one. */
  notifyMs: { ...amount("feed_notify_ms", 20), former: "feed_tell_ms" },
  /** The minimum time between two progress events of one node. */
  progressMs: amount("feed_progress_ms", 250),
  /** The number of jobs whose state is cached, so that their next fact needs no read of the journal. */
  knownJobs: wholeNumber("feed_known_jobs", 10_000),
  /** The maximum number of facts that a resuming stream catches up on: facts of its own jobs, and facts of all jobs that are scanned. */
  catchUpFacts: wholeNumber("feed_catch_up_facts", 1000),
  catchUpScanned: { ...wholeNumber("feed_catch_up_scanned", 100_000), former: "feed_catch_up_looked" },
}

/** The settings of live streams that do not depend on the transport (S10). */
export type FeedSettings = SettingsOf<typeof feedTable>

export const feedSettings = settingsReader<FeedSettings>(feedTable)
