/** A folder that all test files of one run share, for what is made once and copied (embedded.ts). Gone when the run is. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

export default async function makeRunFolder(): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), "umbra-tests-"))
  process.env.UMBRA_TEST_FOLDER = folder
  return () => rm(folder, { recursive: true, force: true })
}
