/** The operator's settings for the built-in adapters. */
import { type Environment, readSettings, type SettingsOf, switchOrList } from "../../settings.ts"

export const adapterTable = {
  /**
   * May pipelines read and write files of the machine they run on? `true`, `false`, or the folders that they
   * may use. The operator decides, not the pipeline: otherwise the author of a pipeline could read files that
   * only this machine can access.
   */
  allowFiles: switchOrList("UMBRA_ALLOW_FILES"),
}

export type AdapterSettings = SettingsOf<typeof adapterTable>

/** Precedence: the given value, then the environment, then the default. */
export function adapterSettings(
  given?: Partial<AdapterSettings>,
  environment?: Environment,
): AdapterSettings {
  return readSettings(adapterTable, given, environment)
}
