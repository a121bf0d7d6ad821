/** Parses the text that names a store. Imports nothing that is slow to load: every command uses it. */
import { UmbraError } from "../errors.ts"
import type { Capabilities, Journal } from "./port/journal.ts"

/** The file of the embedded database, in its folder. */
export const DATABASE_FILE = "umbra.db"

export function isPostgres(location: string): boolean {
  return /^postgres(ql)?:/i.test(location)
}

/** The folder of an embedded database; null: it is in memory; undefined: other processes may use it. */
export function dataFolder(location: string | Journal): string | null | undefined {
  if (typeof location !== "string") return location.capabilities.durable ? undefined : null
  if (location === "memory:") return null
  return isPostgres(location) ? undefined : location
}

/** Host and database only: user, password and options of a URL do not appear in messages. */
export function storeLabel(url: string): string {
  if (!URL.canParse(url)) {
    throw new UmbraError(
      "E504",
      "the PostgreSQL URL cannot be read: write postgres://USER:PASSWORD@HOST:PORT/DATABASE and percent-encode special characters in the password",
    )
  }
  const { host, pathname, searchParams } = new URL(url)
  return `PostgreSQL at ${host || searchParams.get("host") || "localhost"}${pathname}`
}

/** Can another process use the store at the same time? Known before the store is opened. */
export function storeSharing(location: string | Journal): Pick<Capabilities, "exclusive" | "label"> {
  return typeof location === "string"
    ? { exclusive: !isPostgres(location), label: location }
    : location.capabilities
}
