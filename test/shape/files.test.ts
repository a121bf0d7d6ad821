import { posix } from "node:path"
import { describe, expect, it } from "vitest"
import { listFiles, read } from "./files.ts"

const MOST_LINES = 500
const MOST_FILES = 20
const files = listFiles()
const written = files.filter(file => /\.(ts|tsx|js|mjs|sql)$/.test(file))

/** Folders of the file system of whoever wrote the line; `docs/work/x` and `example.com/root/` are none. */
const machinePath = /(?<![\w.~-])\/(work|root|home\/\w+|Users\/\w+)\//

describe("files", () => {
  it("the walk sees the sources and not what is generated", () => {
    expect(files).toContain("src/errors.ts")
    expect(
      files.filter(file => /^(node_modules|dist|\.git)\//.test(file) || /\.generated\./.test(file)),
    ).toEqual([])
  })

  it(`none is longer than ${MOST_LINES} lines: split by subject`, () => {
    const long = written
      .map(file => ({ file, lines: read(file).split("\n").length - 1 }))
      .filter(({ lines }) => lines > MOST_LINES)
    expect(long).toEqual([])
  })

  it("the turn of a command is shorter than 150", () => {
    expect(read("src/engine/owner/turn.ts").split("\n").length - 1).toBeLessThan(150)
  })

  it(`no folder of src has more than ${MOST_FILES}`, () => {
    const folders = new Map<string, number>()
    for (const file of listFiles("src")) {
      const folder = file.slice(0, file.lastIndexOf("/"))
      folders.set(folder, (folders.get(folder) ?? 0) + 1)
    }
    expect([...folders].filter(([, count]) => count > MOST_FILES)).toEqual([])
  })

  it("none is named after nothing in particular", () => {
    expect(written.filter(file => /\b(utils?|helpers?|common|misc)\b/.test(file))).toEqual([])
  })

  it("none mentions a path of somebody's machine", () => {
    const found = files
      .filter(file => /\.(ts|tsx|js|mjs|json|md|sql|yml|yaml|sh)$/.test(file) || file === ".ci/run")
      .flatMap(file =>
        read(file)
          .split("\n")
          .flatMap((line, index) => (machinePath.test(line) ? [`${file}:${index + 1} ${line.trim()}`] : [])),
      )
    expect(found).toEqual([])
  })

  it.each([
    [["", "work", "main"].join("/"), true],
    [`see "${["", "root", ".npmrc"].join("/")}"`, true],
    ["docs/work/page", false],
    ["https://example.com/root/x", false],
    ["a worker/root", false],
  ])("takes %s for a machine's path: %s", (text, expected) => {
    expect(machinePath.test(text)).toBe(expected)
  })

  it("links in pages lead to files", () => {
    const dangling = files
      .filter(file => file.endsWith(".md"))
      .flatMap(file =>
        [...read(file).matchAll(/\]\(([^)\s#]+)(?:#[^)\s]*)?\)/g)]
          .map(([, link]) => link!)
          .filter(link => !/^[a-z]+:/.test(link))
          .filter(link => {
            const target = posix.join(posix.dirname(file), link)
            return !files.some(other => other === target || other.startsWith(`${target.replace(/\/$/, "")}/`))
          })
          .map(link => `${file}: ${link}`),
      )
    expect(dangling).toEqual([])
  })

  /** As GitHub makes them. */
  const anchorsIn = (page: string): string[] =>
    [...page.replace(/^```.*?^```$/gms, "").matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
      heading!
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    )

  it("links to a heading of a page lead to one", () => {
    const dangling = files
      .filter(file => file.endsWith(".md"))
      .flatMap(file =>
        [...read(file).matchAll(/\]\(([^)\s#:]*\.md)?#([^)\s]+)\)/g)].flatMap(([, link, anchor]) => {
          const target = link === undefined ? file : posix.join(posix.dirname(file), link)
          return anchorsIn(read(target)).includes(anchor!) ? [] : [`${file}: ${link ?? ""}#${anchor}`]
        }),
      )
    expect(dangling).toEqual([])
  })

  it("every .sql file begins with a comment that says what it is for", () => {
    const sql = files.filter(file => file.endsWith(".sql"))
    expect(sql.filter(file => !/^-- \S/.test(read(file)))).toEqual([])
  })
})
