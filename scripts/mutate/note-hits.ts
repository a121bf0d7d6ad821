/**
 * Run by vitest before each test file: what the file and its child processes reach is noted under its name
 * (`SWITCH_SOURCE` in instrument.ts).
 */
import { beforeAll, expect } from "vitest"

const name = expect.getState().testPath!.split("/test/").at(-1)!
const file = `${process.env.MUTANT_HITS_FOLDER}/${name.replaceAll("/", "+")}`
process.env.MUTANT_HITS = file

const hits = { file, seen: new Set<number>(), isLoading: true }
Object.assign(globalThis, { hits })
beforeAll(() => {
  hits.isLoading = false
})
