import { amount, type SettingsOf, settingsReader, wholeNumber } from "../settings.ts"

export const pipelineTable = {
  /** The maximum number of executions that have not ended, of all owners and processes. */
  maxExecutions: wholeNumber("UMBRA_MAX_EXECUTIONS", 100),
  maxMessageBytes: wholeNumber("UMBRA_MAX_MESSAGE_BYTES", 1024 * 1024),
  /** The limits on what one message may emit. */
  maxEmitted: wholeNumber("max_emitted", 100_000),
  maxEmittedBytes: wholeNumber("UMBRA_MAX_EMITTED_BYTES", 64 * 1024 * 1024),
  /**
   * The maximum number of messages of a route that wait to be gathered; beyond it, the oldest group is
   * processed as it is.
   */
  maxGathered: wholeNumber("max_gathered", 1000),
  /** The maximum number of messages settled and emitted in one commit, and of the bytes of their bodies … */
  commitMessages: wholeNumber("pipeline_commit_messages", 2000),
  commitBytes: wholeNumber("pipeline_commit_bytes", 8 * 1024 * 1024),
  /** … and of those that have ended and are not in flight to the store yet: beyond it, no message begins. */
  maxUncommitted: wholeNumber("pipeline_max_uncommitted", 4000),
  maxUncommittedBytes: wholeNumber("pipeline_max_uncommitted_bytes", 32 * 1024 * 1024),
  /** The maximum number of bytes of bodies read at a time. */
  pageBytes: wholeNumber("pipeline_page_bytes", 8 * 1024 * 1024),
  /** How often the metrics of a running execution are written although nothing else is. */
  metricsSeconds: { ...amount("pipeline_metrics_seconds", 1), former: "pipeline_figures_seconds" },
}

/** All settings of pipelines (S10). What belongs to a single route is in its definition. */
export type PipelineSettings = SettingsOf<typeof pipelineTable>

export const pipelineSettings = settingsReader<PipelineSettings>(pipelineTable)
