/** The operator's settings for the built-in adapters. */
import {
  type Environment,
  readSettings,
  type Setting,
  type SettingTable,
  settingNames,
} from "../../settings.ts"

export interface AdapterSettings {
  /**
   * May pipelines read and write files of the machine they run on? `true`, `false`, or the folders that they
   * may use. The operator decides, not the pipeline: otherwise the author of a pipeline could read files that
   * only this machine can access.
   */
  readonly allowFiles: boolean | readonly string[]
}

const allowFiles: Setting<AdapterSettings["allowFiles"]> = {
  ...settingNames("UMBRA_ALLOW_FILES"),
  default: false,
  read: allowedFolders,
  wrong: () => undefined,
}

export const adapterTable: SettingTable<AdapterSettings> = { allowFiles }

/** Precedence: the given value, then the environment, then the default. */
export function adapterSettings(
  given?: Partial<AdapterSettings>,
  environment?: Environment,
): AdapterSettings {
  return readSettings(adapterTable, given, environment)
}

function allowedFolders(text: string): boolean | string[] {
  const word = text.toLowerCase()
  if (["1", "true", "yes", "on"].includes(word)) return true
  if (["0", "false", "no", "off"].includes(word)) return false
  return text.split(",").map(folder => folder.trim())
}
