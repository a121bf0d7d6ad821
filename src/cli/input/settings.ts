/**
 * `--set NAME=VALUE`, flags that are short for it, and `--config FILE` (S10). They become variables of this process before
 * anything reads them, so threads read the same values. A flag takes precedence over a variable, a variable over the file.
 */
import { parse } from "yaml"
import { artifactTable } from "../../artifacts/settings.ts"
import { redisTable } from "../../broker/redis/settings.ts"
import { Suggester } from "../../definition/suggest.ts"
import { engineTable } from "../../engine/settings.ts"
import { UmbraError } from "../../errors.ts"
import { feedTable } from "../../feed/settings.ts"
import { journalTable } from "../../journal/settings.ts"
import { adapterTable } from "../../pipeline/adapters/settings.ts"
import { pipelineTable } from "../../pipeline/settings.ts"
import { providerTable } from "../../provider/settings.ts"
import { rolesTable } from "../../roles.ts"
import { serverTable } from "../../server/settings.ts"
import { SETTINGS_VARIABLE, type Setting, settingNames } from "../../settings.ts"
import { secretTable } from "../../worker/environment-secrets.ts"
import { workerTable } from "../../worker/settings.ts"
import { readText } from "./source.ts"

interface SettingOptions {
  readonly set?: readonly string[]
  readonly config?: string
  readonly allowPrivateAddresses?: boolean
}

/** Not settings of a room, but set in the same way. */
const places = ["UMBRA_DATA_DIR", "UMBRA_DATABASE_URL", "UMBRA_SERVER", "UMBRA_REDIS_URL"].map(settingNames)

const settings: ReadonlyMap<string, Pick<Setting<unknown>, "name" | "variable">> = new Map(
  [
    engineTable,
    artifactTable,
    workerTable,
    journalTable,
    serverTable,
    feedTable,
    providerTable,
    redisTable,
    rolesTable,
    adapterTable,
    pipelineTable,
    secretTable,
  ]
    .flatMap(table => Object.values<Pick<Setting<unknown>, "name" | "variable">>(table))
    .concat(places)
    .map(setting => [setting.name, setting]),
)

export async function applySettings({
  set = [],
  config = process.env.UMBRA_CONFIG,
  allowPrivateAddresses,
}: SettingOptions): Promise<void> {
  const { env } = process
  /** Of settings without a variable. */
  const values: Record<string, string> = {}
  if (config) {
    for (const [given, value] of Object.entries(await readConfig(config))) {
      const { name, variable } = findSetting(given, config)
      if (variable === null) values[name] = formatValue(value)
      else env[variable] ??= formatValue(value)
    }
  }
  for (const assignment of set) {
    const mark = assignment.indexOf("=")
    if (mark < 1) throw wrong(`--set takes NAME=VALUE, not "${assignment}".`)
    const { name, variable } = findSetting(assignment.slice(0, mark), "--set")
    const value = assignment.slice(mark + 1)
    if (variable === null) values[name] = value
    else env[variable] = value
  }
  if (allowPrivateAddresses) env[workerTable.allowPrivateAddresses.variable!] = "true"
  if (Object.keys(values).length > 0) env[SETTINGS_VARIABLE] = JSON.stringify(values)
}

async function readConfig(file: string): Promise<Record<string, unknown>> {
  const { text } = await readText(file)
  try {
    const content: unknown = parse(text) ?? {}
    if (typeof content === "object" && !Array.isArray(content)) return content as Record<string, unknown>
  } catch (error) {
    throw wrong(`${file} is not YAML: ${(error as Error).message}`)
  }
  throw wrong(`${file} must be a mapping of settings: "concurrency: 20".`)
}

function findSetting(given: string, where: string): Pick<Setting<unknown>, "name" | "variable"> {
  const setting = settings.get(given.toLowerCase())
  if (setting !== undefined) return setting
  const names = [...settings.keys()]
  const nearest = new Suggester().nearest(given, names)
  const advice =
    nearest === undefined
      ? `docs/reference/configuration.md lists them: ${names.join(", ")}.`
      : `Did you mean "${nearest}"?`
  throw wrong(`${where}: there is no setting "${given}". ${advice}`)
}

function formatValue(value: unknown): string {
  if (value === null) return "never"
  return typeof value === "object" && !Array.isArray(value) ? JSON.stringify(value) : String(value)
}

function wrong(message: string): UmbraError {
  return new UmbraError("E620", message)
}
