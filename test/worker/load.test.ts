import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { afterAll, describe, expect, it } from "vitest"
import { loadHandlers } from "../../src/worker/load.ts"

const folder = mkdtempSync(join(tmpdir(), "umbra-load-"))
afterAll(() => rmSync(folder, { recursive: true }))

const source = new URL("../../src/worker/handler.ts", import.meta.url).href

function file(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text.replaceAll("UMBRA", source))
  return path
}

const names = async (path: string) => (await loadHandlers(path)).map(handler => handler.name).sort()

describe("loading handlers", () => {
  it("finds every export that is a handler or a list of them, once each, in TypeScript", async () => {
    const path = file(
      "mine.ts",
      `import { defineHandler } from "UMBRA"
       interface Greeting { readonly text: string }
       export const one = defineHandler({ name: "one", run: (): Greeting => ({ text: "x" }) })
       export const list = [defineHandler({ name: "two", run: () => 2 })]
       export const other: number = 7
       export default one`,
    )
    expect(await names(path)).toEqual(["one", "two"])
    expect(await names(pathToFileURL(path).href)).toEqual(["one", "two"])
  })

  it("takes plain objects and CommonJS too", async () => {
    expect(await names(file("plain.mjs", `export const x = { name: "plain", run: () => 1 }`))).toEqual([
      "plain",
    ])
    expect(await names(file("old.cjs", `module.exports = { y: { name: "old", run: () => 1 } }`))).toEqual([
      "old",
    ])
  })

  it.each([
    ["nothing.ts", "export const x = 1", /exports no handler/],
    ["broken.ts", "export const x = {", /cannot be loaded/],
    ["throws.ts", `throw new Error("at load")`, /cannot be loaded: at load/],
    ["wrong.ts", `export const x = { name: "", run: () => 1 }`, /name must be/],
  ])("%s is a clear error (E602)", async (name, text, message) => {
    const error = await loadHandlers(file(name, text)).catch(error => error)
    expect(error).toMatchObject({ code: "E602" })
    expect(error.message).toMatch(message)
  })

  it("a module that does not exist is named", async () => {
    await expect(loadHandlers("./none.ts")).rejects.toThrow("./none.ts does not exist")
    await expect(loadHandlers("no-such-package-here")).rejects.toThrow(
      "no-such-package-here is neither a file nor a package that is installed here",
    )
  })
})
