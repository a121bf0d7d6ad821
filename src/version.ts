import { readFileSync } from "node:fs"

const manifest = readFileSync(new URL("../package.json", import.meta.url), "utf8")

/** The release of this installation. */
export const version = (JSON.parse(manifest) as { readonly version: string }).version
