/** Run by vitest before each test file: what it and its child processes reach is noted under the file's name. */
import { beforeAll, expect } from "vitest"

const folder = process.env.MUTANT_HITS_FOLDER
const name = expect.getState().testPath?.split("/test/").at(-1)
if (folder !== undefined && name !== undefined)
  process.env.MUTANT_HITS = `${folder}/${name.replaceAll("/", "+")}`

process.env.MUTANT_LOADING = "yes"
beforeAll(() => {
  process.env.MUTANT_LOADING = "no"
})
