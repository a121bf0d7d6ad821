import { amount, readSettings, type SettingTable, wholeNumber } from "../settings.ts"

/** Every figure that pipelines work with (S10). What belongs to one route is in its definition. */
export interface PipelineSettings {
  /** Executions that have not ended, of all owners and processes. */
  readonly maxExecutions: number
  readonly maxMessageBytes: number
  /** What one message may emit. */
  readonly maxEmitted: number
  readonly maxEmittedBytes: number
  /** Messages of a route that wait to be gathered; beyond, the oldest group is processed as it is. */
  readonly maxGathered: number
  /** Messages settled and emitted in one commit, and the bytes of their bodies … */
  readonly commitMessages: number
  readonly commitBytes: number
  /** … and done, but not on their way to the store yet: beyond, none is begun. */
  readonly maxUncommitted: number
  readonly maxUncommittedBytes: number
  /** Bodies read at a time. */
  readonly pageBytes: number
  /** How often figures of a running execution are written although nothing else is. */
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

/** What is given, else what the environment says, else the default. */
export function pipelineSettings(given?: Partial<PipelineSettings>): PipelineSettings {
  return readSettings(pipelineTable, given)
}
