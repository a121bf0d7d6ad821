import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { hello, openStage } from "../server/stage.ts"
import { loadedWith } from "../shape/built.ts"
import { listFiles, read } from "../shape/files.ts"
import { everyNode, parse, type SyntaxNode } from "../shape/syntax.ts"
import { inChromium } from "./browser.ts"
import { event } from "./scripted.ts"

const root = resolve(import.meta.dirname, "../..")
const ofNode = new Set([
  "process",
  "Buffer",
  "global",
  "require",
  "module",
  "__dirname",
  "__filename",
  "setImmediate",
])

/** What a browser loads for `umbra/client`, from what the package exports. */
function loaded() {
  const { exports } = JSON.parse(read("package.json")) as { exports: Record<string, { default: string }> }
  return loadedWith(exports["./client"]!.default.replace("./", ""))
}

const isGlobal = (node: SyntaxNode, parent: SyntaxNode | null, key: string) =>
  node.type === "Identifier" &&
  ofNode.has(String(node.name)) &&
  !(parent?.type === "MemberExpression" && key === "property" && parent.computed !== true) &&
  !(parent?.type === "Property" && key === "key")

describe("umbra/client is safe for browsers", () => {
  it("loads its own few files, no package, nothing of Node and of no other room but one file of core", () => {
    const { files, sources, packages } = loaded()
    expect(packages).toEqual([])
    expect(sources.length).toBeGreaterThan(5)
    // It merges the live overlay into a graph: pure, without imports at run time, and the same as in the CLI.
    expect(sources.filter(file => !file.startsWith("src/client/"))).toEqual(["src/core/view/live-view.ts"])
    const size = files.reduce((sum, file) => sum + read(file).length, 0)
    expect(size).toBeLessThan(60_000)
  })

  it("uses no global that only Node has", () => {
    const found = loaded().files.flatMap(file =>
      [...everyNode(parse(file, read(file)))]
        .filter(({ node, parent, key }) => isGlobal(node, parent, key))
        .map(({ node }) => `${file}: ${String(node.name)}`),
    )
    expect(found).toEqual([])
  })

  it("imports other rooms as types only, but for that file", () => {
    const sources = listFiles("src/client")
    const atRunTime = sources.flatMap(file =>
      [...read(file).matchAll(/^(import|export) (?!type\b).*from "\.\.\/.*/gm)].map(
        ([line]) => `${file}: ${line}`,
      ),
    )
    expect(atRunTime).toEqual([expect.stringMatching(/^src\/client\/index\.ts: .*core\/view\/live-view\.ts/)])
  })

  it("has types that a project without Node's can use, checked to the last declaration", () => {
    const folder = mkdtempSync(join(tmpdir(), "umbra-browser-types-"))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))
    writeFileSync(
      join(folder, "page.ts"),
      `import { connect, UmbraClientError } from ${JSON.stringify(join(root, "dist/client/index.js"))}
       const job = await connect({ url: location.origin }).submit("hello", {}, { signal: AbortSignal.timeout(1000) })
       for await (const event of job.stream()) if (event.type === "node") document.title = event.data.status
       export const failed = (error: unknown): boolean => error instanceof UmbraClientError`,
    )
    const options = ["--noEmit", "--strict", "--target", "es2022", "--module", "esnext"]
    const more = ["--moduleResolution", "bundler", "--lib", "es2023,dom,dom.iterable", "--types", ""]
    const tsc = spawnSync(join(root, "node_modules/.bin/tsc"), [...options, ...more, "page.ts"], {
      cwd: folder,
      encoding: "utf8",
    })
    expect(tsc.stdout).toBe("")
    expect(tsc.status).toBe(0)
  })

  it("S4 submits, waits, lists and streams with resume in Chromium", async () => {
    const stage = await openStage()
    onTestFinished(() => stage.close())
    const resumedAt: unknown[] = []
    let cut = () => {}
    const result = await inChromium({
      server: stage.server.url,
      script: readFileSync(join(import.meta.dirname, "page.js"), "utf8"),
      answers: (request, response) => {
        if (request.url === "/scripted/cut") {
          response.end()
          cut()
          return true
        }
        if (request.url !== "/scripted/jobs/j/stream") return false
        resumedAt.push(request.headers["last-event-id"] ?? null)
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write("retry: 5\n\n")
        const isFirst = resumedAt.length === 1
        response.write(
          isFirst ? event("snapshot", { job: { job_id: "j" } }, "1") : event("job", { n: 1 }, "2"),
        )
        // The page asks for it once it has the snapshot.
        if (isFirst) cut = () => response.destroy()
        else response.end(event("end", { reason: "job_ended" }))
        return true
      },
    })
    expect(result).toEqual({
      output: "Hello Ada",
      listed: 1,
      refused: "E301",
      workflow: hello.name,
      streamed: ["snapshot", "job", "end"],
    })
    expect(resumedAt).toHaveLength(2)
    expect(resumedAt[0]).toBeNull()
  })
})
