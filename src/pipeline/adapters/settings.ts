/** The operator's settings for the built-in adapters. */
import { type SettingsOf, settingsReader, switchOrList } from "../../settings.ts"

export const adapterTable = {
  /**
   * May pipelines read and write files of the machine they run on? `true`, `false`, or the folders that they
   * may use. The operator decides, not the pipeline: otherwise the author of a pipeline could read files that
   * only this machine can access.
   */
  allowFiles: switchOrList("UMBRA_ALLOW_FILES"),
}

export type AdapterSettings = SettingsOf<typeof adapterTable>

export const adapterSettings = settingsReader<AdapterSettings>(adapterTable)
