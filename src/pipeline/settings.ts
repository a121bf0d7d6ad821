import { amount, readSettings, type SettingTable, wholeNumber } from "../settings.ts"

/** All settings of pipelines (S10). What belongs to a single route is in its definition. */
export interface PipelineSettings {
  /** The maximum number of executions that have not ended, of all owners and processes. */
  readonly maxExecutions: number
  readonly maxMessageBytes: number
  /** The limits on what one message may emit. */
  readonly maxEmitted: number
  readonly maxEmittedBytes: number
  /**
   * The maximum number of messages of a route that wait to be gathered; beyond it, the oldest group is
   * processed as it is.
   */
  readonly maxGathered: number
  /** The maximum number of messages settled and emitted in one commit, and of the bytes of their bodies … */
  readonly commitMessages: number
  readonly commitBytes: number
  /** … and of those that have ended and are not in flight to the store yet: beyond it, no message begins. */
  readonly maxUncommitted: number
  readonly maxUncommittedBytes: number
  /** The maximum number of bytes of bodies read at a time. */
  readonly pageBytes: number
  /** How often the metrics of a running execution are written although nothing else is. */
  readonly figuresSeconds: number
}

export const pipelineTable: SettingTable<PipelineSettings> = {
  maxExecutions: wholeNumber("UMBRA_MAX_EXECUTIONS", 100),
  maxMessageBytes: wholeNumber("UMBRA_MAX_MESSAGE_BYTES", 1024 * 1024),
  maxEmitted: wholeNumber("max_emitted", 100_000),
  maxEmittedBytes: wholeNumber("UMBRA_MAX_EMITTED_BYTES", 64 * 1024 * 1024),
  maxGathered: wholeNumber("max_gathered", 1000),
  commitMessages: wholeNumber("pipeline_commit_messages", 2000),
  commitBytes: wholeNumber("pipeline_commit_bytes", 8 * 1024 * 1024),
  maxUncommitted: wholeNumber("pipeline_max_uncommitted", 4000),
  maxUncommittedBytes: wholeNumber("pipeline_max_uncommitted_bytes", 32 * 1024 * 1024),
  pageBytes: wholeNumber("pipeline_page_bytes", 8 * 1024 * 1024),
  figuresSeconds: amount("pipeline_figures_seconds", 1),
}

/** Precedence: the given value, then the environment, then the default. */
export function pipelineSettings(given?: Partial<PipelineSettings>): PipelineSettings {
  return readSettings(pipelineTable, given)
}
