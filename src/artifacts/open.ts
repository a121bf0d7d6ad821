import { randomBytes } from "node:crypto"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { UmbraError } from "../errors.ts"
import { dataFolder } from "../journal/location.ts"
import type { ContentStore } from "./content-store.ts"
import { openFolderStore } from "./folder-store.ts"
import { readLocation } from "./s3/location.ts"
import { S3Store } from "./s3/store.ts"
import { artifactSettings } from "./settings.ts"

/** The folder of artifacts inside of the data folder. */
const FOLDER = "artifacts"

/** The location of the content, as text, so that other threads and processes can open it too. */
export interface ContentPlace {
  readonly location: string
  /** A folder that is removed when the store is closed. */
  readonly isTemporary: boolean
}

/** `dataFolder`: of an embedded database; null: the database is in memory; undefined: it is elsewhere. null: no artifact store is configured. */
export function contentPlace(
  setting: string | null,
  dataFolder: string | null | undefined,
): ContentPlace | null {
  if (setting !== null) return { location: checked(setting), isTemporary: false }
  if (dataFolder === undefined) return null
  if (dataFolder !== null) return { location: join(dataFolder, FOLDER), isTemporary: false }
  const name = `umbra-artifacts-${randomBytes(9).toString("hex")}`
  return { location: join(tmpdir(), name), isTemporary: true }
}

/** Of the database at this location, by the settings; null: none is configured. */
export function configuredContentPlace(location: string): ContentPlace | null {
  return contentPlace(artifactSettings().location, dataFolder(location))
}

/** Opens no connection, and creates no folder before the first content. */
export function openContentStore({ location, isTemporary }: ContentPlace): ContentStore {
  if (parseScheme(location) === "s3") return new S3Store(readLocation(location))
  return openFolderStore(location, { isTemporary })
}

/** A folder, or a URL with a scheme that is known. */
function checked(location: string): string {
  const scheme = parseScheme(location)
  if (scheme === undefined) return location
  if (scheme === "s3") {
    readLocation(location)
    return location
  }
  throw new UmbraError(
    "E620",
    `The setting artifacts (UMBRA_ARTIFACTS) must be a folder or s3://BUCKET/PREFIX, not ${scheme}://….`,
  )
}

function parseScheme(location: string): string | undefined {
  return /^([a-z][a-z0-9+.-]+):\/\//i.exec(location)?.[1]?.toLowerCase()
}

export function noContentStore(): UmbraError {
  return new UmbraError(
    "E808",
    "This process has no artifact store. Set UMBRA_ARTIFACTS to a folder that all processes share, or to s3://BUCKET/PREFIX, and restart it.",
  )
}
