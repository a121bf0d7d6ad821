/** The settings of artifacts, their defaults and their environment variables. */
import {
  amount,
  amountOrNever,
  type Setting,
  type SettingsOf,
  settingNames,
  settingsReader,
  wholeNumber,
} from "../settings.ts"

const location: Setting<string | null> = {
  ...settingNames("UMBRA_ARTIFACTS"),
  default: null,
  read: given => given,
  wrong: value => (value === "" ? "a folder, or s3://BUCKET/PREFIX" : undefined),
}

export const artifactTable = {
  /** A folder, or `s3://bucket/prefix`; null: a folder inside the data folder, where there is one. */
  location,
  /** Larger content is rejected. */
  maxBytes: wholeNumber("artifact_max_bytes", 16 * 1024 ** 3),
  /** All artifacts of one owner together; null: no limit. */
  quotaBytes: amountOrNever("artifact_quota_bytes", null),
  /** Facts with larger outputs are kept with the content; null: all are in the database. */
  outputBytes: amountOrNever("artifact_output_bytes", null),
  /** Content that nothing refers to is kept for this long. */
  orphanHours: amount("artifact_orphan_hours", 24),
  /** The interval of sweeps, which mark what nothing refers to, and remove what the sweep before has marked. */
  sweepSeconds: wholeNumber("artifact_sweep_seconds", 3600),
}

export type ArtifactSettings = SettingsOf<typeof artifactTable>

export const artifactSettings = settingsReader<ArtifactSettings>(artifactTable)
