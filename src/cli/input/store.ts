/** The store of a command: a folder or a PostgreSQL database, from a flag, a variable, or `./.umbra`. */
import { existsSync } from "node:fs"
import { join } from "node:path"
import { UmbraError } from "../../errors.ts"
import { DATABASE_FILE, isPostgres, storeLabel } from "../../journal/location.ts"
import type { Environment } from "../../settings.ts"
import type { Modules } from "./modules.ts"

export interface StoreOptions {
  readonly dataDir?: string
  readonly databaseUrl?: string
}

const STANDARD_FOLDER = "./.umbra"

/** Flags override variables. DATABASE_URL belongs to an application: it is ignored with a warning. */
export function storeLocation(
  options: StoreOptions,
  environment: Environment = process.env,
  warn: (line: string) => void = warnOnce,
): string {
  const { UMBRA_DATABASE_URL, UMBRA_DATA_DIR, DATABASE_URL } = environment
  const given = options.databaseUrl ?? options.dataDir ?? (UMBRA_DATABASE_URL || UMBRA_DATA_DIR || undefined)
  if (given === undefined && DATABASE_URL && isPostgres(DATABASE_URL)) warn(ignored)
  const location = given ?? STANDARD_FOLDER
  if (options.databaseUrl !== undefined || (options.dataDir === undefined && UMBRA_DATABASE_URL))
    mustBePostgres(location)
  return location
}

const ignored = `umbra: DATABASE_URL is ignored; jobs are in ${STANDARD_FOLDER}. To use that database, set UMBRA_DATABASE_URL or --database-url. To hide this warning, set a folder (UMBRA_DATA_DIR, --data-dir).`

let hasWarned = false

/** A command reads its location several times. */
function warnOnce(line: string): void {
  if (!hasWarned) process.stderr.write(`${line}\n`)
  hasWarned = true
}

function mustBePostgres(location: string): void {
  if (!isPostgres(location))
    throw new UmbraError(
      "E504",
      "a database URL must begin with postgres://. For a folder use --data-dir or UMBRA_DATA_DIR.",
    )
}

/** A folder without a database: one has to be created. A database of an earlier version counts, and opening it reports that. */
export function isNewFolder(location: string): boolean {
  return !isPostgres(location) && ![DATABASE_FILE, "database"].some(name => existsSync(join(location, name)))
}

/** The name of a store for people, without user and password. */
export function storeName(location: string): string {
  return isPostgres(location) ? storeLabel(location) : location
}

/** Flags to add to a suggested command, so that it uses the same store. */
export function storeFlags({ dataDir, databaseUrl }: StoreOptions): string {
  if (dataDir !== undefined) return ` --data-dir ${word(dataDir)}`
  return databaseUrl === undefined ? "" : " --database-url …"
}

export interface RunningOptions extends StoreOptions, Modules {
  readonly allowPrivateAddresses?: boolean
}

/** The same for a command that runs jobs itself, which also needs the modules of this one. */
export function runningFlags(options: RunningOptions): string {
  const modules = (["handlers", "adapters", "providers"] as const).flatMap(name =>
    (options[name] ?? []).map(module => ` --${name} ${word(module)}`),
  )
  const addresses = options.allowPrivateAddresses ? " --allow-private-addresses" : ""
  return `${storeFlags(options)}${modules.join("")}${addresses}`
}

/** Quoted for a shell. */
const word = (text: string): string =>
  /^[\w./@:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

/** Commands that only query jobs create no store: a mistyped folder must not look like a store without jobs. */
export function existingStore(options: StoreOptions): string {
  const location = storeLocation(options)
  if (!isNewFolder(location)) return location
  throw new UmbraError(
    "E504",
    `there is no Umbra database in ${location}. Set the folder with --data-dir, or create one with \`umbra run\`.`,
  )
}
