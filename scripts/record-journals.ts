/**
 * Records journals as this release writes them, in test/core/fixtures/journals/<major.minor>/, for every
 * later release to fold (DESIGN: stored facts are the real API). Run it once per minor release, or after
 * adding a scenario; earlier recordings are not changed. Then run `npx biome check --write` on the new files:
 * fixtures are linted too.
 */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { recordJournals } from "../test/core/journals.ts"

const root = new URL("../", import.meta.url)
const { version } = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as { version: string }
const release = version.split(".").slice(0, 2).join(".")
const added = recordJournals(fileURLToPath(new URL("test/core/fixtures/journals/", root)), release)
process.stdout.write(added.length === 0 ? "nothing to record\n" : `${added.join("\n")}\n`)
