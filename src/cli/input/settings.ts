/**
 * `--set NAME=VALUE`, flags that are short for it, and `--config FILE` (S10). They become environment variables of this
 * process before any code reads them, so threads see the same values. Flags override variables, variables override the
 * file.
 */
import { parse } from "yaml"
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
import { secretTable } from "../../worker/environment-secrets.ts"
import { workerTable } from "../../worker/settings.ts"
import { readText } from "./source.ts"

interface SettingOptions {
  readonly set?: readonly string[]
  readonly config?: string
  readonly allowPrivateAddresses?: boolean
}

/** Not numeric settings of a module, but set in the same way. */
const locations = ["UMBRA_DATA_DIR", "UMBRA_DATABASE_URL", "UMBRA_SERVER", "UMBRA_REDIS_URL"]

const variables: ReadonlySet<string> = new Set([
  ...[
    engineTable,
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
    .flatMap(table => Object.values(table))
    .map(({ variable }) => variable),
  ...locations,
])

export async function applySettings({
  set = [],
  config = process.env.UMBRA_CONFIG,
  allowPrivateAddresses,
}: SettingOptions): Promise<void> {
  if (config) {
    for (const [name, value] of Object.entries(await readConfig(config)))
      process.env[variableOf(name, config)] ??= textOf(value)
  }
  for (const assignment of set) {
    const mark = assignment.indexOf("=")
    if (mark < 1) throw wrong(`--set needs NAME=VALUE, not "${assignment}".`)
    process.env[variableOf(assignment.slice(0, mark), "--set")] = assignment.slice(mark + 1)
  }
  if (allowPrivateAddresses) process.env[workerTable.allowPrivateAddresses.variable] = "true"
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

function variableOf(name: string, where: string): string {
  const variable = `UMBRA_${name.toUpperCase()}`
  if (variables.has(variable)) return variable
  const names = [...variables].map(nameOf)
  const nearest = new Suggester().nearest(name, names)
  const advice =
    nearest === undefined
      ? `docs/configuration.md lists them: ${names.join(", ")}.`
      : `Did you mean "${nearest}"?`
  throw wrong(`${where}: there is no setting "${name}". ${advice}`)
}

function nameOf(variable: string): string {
  return variable.replace(/^UMBRA_/, "").toLowerCase()
}

function textOf(value: unknown): string {
  if (value === null) return "never"
  return typeof value === "object" && !Array.isArray(value) ? JSON.stringify(value) : String(value)
}

function wrong(message: string): UmbraError {
  return new UmbraError("E620", message)
}
