import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"

/** A folder that is gone when the test is. */
export async function freshFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "umbra-journal-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}
