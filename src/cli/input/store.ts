/** Where a command's jobs are: a folder or a PostgreSQL database, by flag, by variable, or `./.umbra`. */
import { existsSync } from "node:fs"
import { join } from "node:path"
import { UmbraError } from "../../errors.ts"
import { DATABASE_FILE, isPostgres, storeLabel } from "../../journal/location.ts"
import type { Environment } from "../../settings.ts"

export interface StoreOptions {
  readonly dataDir?: string
  readonly databaseUrl?: string
}

const STANDARD_FOLDER = "./.umbra"

/** A flag counts before a variable. DATABASE_URL belongs to an application: it is ignored, and a warning says so. */
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

const ignored = `umbra: DATABASE_URL is ignored; jobs are in ${STANDARD_FOLDER}. To use that database set UMBRA_DATABASE_URL or give --database-url; otherwise name a folder (UMBRA_DATA_DIR, --data-dir).`

let hasWarned = false

/** A command asks for its location several times. */
function warnOnce(line: string): void {
  if (!hasWarned) process.stderr.write(`${line}\n`)
  hasWarned = true
}

function mustBePostgres(location: string): void {
  if (!isPostgres(location))
    throw new UmbraError(
      "E504",
      "a database URL begins with postgres://. For a folder use --data-dir or UMBRA_DATA_DIR.",
    )
}

/** A folder without a database: one has to be made. That of an earlier version is one, and opening it says so. */
export function isNewFolder(location: string): boolean {
  return !isPostgres(location) && ![DATABASE_FILE, "database"].some(name => existsSync(join(location, name)))
}

/** The store for a person: never a user or a password. */
export function storeName(location: string): string {
  return isPostgres(location) ? storeLabel(location) : location
}

/** What to add to a command that we suggest, so that it finds the same store. */
export function storeFlags({ dataDir, databaseUrl }: StoreOptions): string {
  if (dataDir !== undefined) return ` --data-dir ${word(dataDir)}`
  return databaseUrl === undefined ? "" : " --database-url …"
}

export interface RunningOptions extends StoreOptions {
  readonly handlers?: readonly string[]
  readonly adapters?: readonly string[]
  readonly providers?: readonly string[]
  readonly allowPrivateAddresses?: boolean
}

/** The same for a command that runs jobs itself: without what this one was given, it could not. */
export function runningFlags(options: RunningOptions): string {
  const modules = (["handlers", "adapters", "providers"] as const).flatMap(name =>
    (options[name] ?? []).map(module => ` --${name} ${word(module)}`),
  )
  const addresses = options.allowPrivateAddresses ? " --allow-private-addresses" : ""
  return `${storeFlags(options)}${modules.join("")}${addresses}`
}

/** As a shell takes it for one. */
const word = (text: string): string =>
  /^[\w./@:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

/** Commands that look at jobs make no store: a mistyped folder must not look like one without jobs. */
export function existingStore(options: StoreOptions): string {
  const location = storeLocation(options)
  if (!isNewFolder(location)) return location
  throw new UmbraError(
    "E504",
    `there are no jobs in ${location}: it has no database of Umbra. Name the folder with --data-dir, or make one with \`umbra run\`.`,
  )
}
