/** Where a command's jobs are: a folder or a PostgreSQL database, by flag, by variable, or `./.umbra`. */
import { existsSync } from "node:fs"
import { join } from "node:path"
import { UmbraError } from "../errors.ts"
import { isPostgres, labelOf } from "../journal/location.ts"
import type { Environment } from "../settings.ts"

export interface StoreOptions {
  readonly dataDir?: string
  readonly databaseUrl?: string
}

const STANDARD_FOLDER = "./.umbra"

/**
 * A flag counts before a variable, and Umbra's own variables before DATABASE_URL, which is often there for another
 * program: it is followed only if it names a PostgreSQL.
 */
export function storeLocation(options: StoreOptions, environment: Environment = process.env): string {
  const { UMBRA_DATABASE_URL, UMBRA_DATA_DIR, DATABASE_URL } = environment
  const shared = DATABASE_URL && isPostgres(DATABASE_URL) ? DATABASE_URL : undefined
  const location =
    options.databaseUrl ??
    options.dataDir ??
    (UMBRA_DATABASE_URL || UMBRA_DATA_DIR || shared || STANDARD_FOLDER)
  if (options.databaseUrl !== undefined || (options.dataDir === undefined && UMBRA_DATABASE_URL))
    mustBePostgres(location)
  return location
}

function mustBePostgres(location: string): void {
  if (!isPostgres(location))
    throw new UmbraError(
      "E504",
      "a database URL begins with postgres://. For a folder use --data-dir or UMBRA_DATA_DIR.",
    )
}

/** The store for a person: never a user or a password. */
export function storeName(location: string): string {
  return isPostgres(location) ? labelOf(location) : location
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
  if (isPostgres(location) || existsSync(join(location, "database"))) return location
  throw new UmbraError(
    "E504",
    `there are no jobs in ${location}: it has no database of Umbra. Name the folder with --data-dir, or make one with \`umbra run\`.`,
  )
}
