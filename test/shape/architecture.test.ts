import { describe, expect, it } from "vitest"
import { listFiles, read } from "./files.ts"

const sources = [...listFiles("src"), ...listFiles("ui")]
const page = read("ARCHITECTURE.md")
const quoted = [...page.matchAll(/`([^`\n]+)`/g)].map(([, text]) => text!)

/** Text of all classes and interfaces of this name. */
function declarations(name: string): readonly string[] {
  const start = new RegExp(`^export (?:abstract )?(?:class|interface) ${name}\\b[^]*?^}`, "m")
  return sources.filter(file => file.endsWith(".ts")).flatMap(file => start.exec(read(file)) ?? [])
}

describe("ARCHITECTURE.md", () => {
  it("has at most 30 words in its vocabulary, each in a row of its own", () => {
    const table = page.slice(page.indexOf("## Vocabulary"), page.indexOf("\n## Where"))
    const words = [...table.matchAll(/^\| ([^|]+) \| /gm)].map(([, word]) => word!).slice(2)
    expect(words.length).toBeGreaterThan(20)
    expect(words.length).toBeLessThanOrEqual(30)
    expect(words.filter(word => word.includes(","))).toEqual([])
  })

  it("names files and folders that exist", () => {
    const named = quoted.filter(text => /^[\w./-]+(\.(ts|sql)|\/)$/.test(text) && text.includes("/"))
    const tested = listFiles("test")
    const exists = (path: string) =>
      [...sources, ...tested].some(file =>
        [path, `src/${path}`].some(name => file === name || (name.endsWith("/") && file.startsWith(name))),
      )
    // A folder of a room's cell, such as `decide/`, is named without its room.
    const isFolderOfARoom = (path: string) =>
      /^\w+\/$/.test(path) && sources.some(file => file.includes(`/${path}`))
    expect(named.length).toBeGreaterThan(30)
    expect(named.filter(path => !exists(path) && !isFolderOfARoom(path))).toEqual([])
  })

  it("names files by their path, so that they can be found", () => {
    expect(quoted.filter(text => /^[\w-]+\.(ts|sql)$/.test(text))).toEqual([])
  })

  it("names methods that exist", () => {
    const methods = quoted.filter(text => /^[A-Z]\w+\.[a-z]\w+$/.test(text))
    expect(methods.length).toBeGreaterThan(3)
    const missing = methods.filter(text => {
      const [name, method] = text.split(".") as [string, string]
      return !declarations(name).some(body =>
        new RegExp(`^\\s+(?:async |get |static )*${method}[(<?:]`, "m").test(body),
      )
    })
    expect(missing).toEqual([])
  })
})
