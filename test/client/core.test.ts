/** `umbra/core` in a browser: a page folds the journal of a job to the graph that the server answers with. */
import { readFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { build } from "esbuild"
import { describe, expect, it, onTestFinished } from "vitest"
import { isoGraphAt } from "../../src/jobs/iso-times.ts"
import { openStage } from "../server/stage.ts"
import { loadedWith } from "../shape/built.ts"
import { read } from "../shape/files.ts"
import { inChromium } from "./browser.ts"

const root = resolve(import.meta.dirname, "../..")

const flow = {
  name: "flow",
  nodes: [
    { id: "each", handler: "transform", for_each: "{{ input.list }}", config: { value: "{{ item.text }}" } },
    {
      id: "fails",
      handler: "broken",
      retry: { max_attempts: 2, initial_seconds: 0 },
      dependencies: ["each"],
    },
    { id: "after", handler: "approval", dependencies: ["fails"] },
  ],
}

const entry = () =>
  (JSON.parse(read("package.json")) as { exports: Record<string, { default: string }> }).exports["./core"]!
    .default

describe("umbra/core", () => {
  it("loads files of core alone, no package and nothing of Node, and decides nothing", () => {
    const { sources, packages } = loadedWith(entry().replace("./", ""))
    expect(packages).toEqual([])
    expect(sources.length).toBeGreaterThan(10)
    expect(sources.filter(file => !file.startsWith("src/core/"))).toEqual([])
    // The rules of retries are shared with the view.
    expect(sources.filter(file => file.startsWith("src/core/decide/"))).toEqual([
      "src/core/decide/backoff.ts",
    ])
  })

  it("folds a recorded journal in Chromium to the graph of the server, at every moment", async () => {
    const stage = await openStage()
    onTestFinished(() => stage.close())
    const { version } = await stage.umbra.register(flow as never)
    const list = Array.from({ length: 60 }, (_, n) => ({ text: `${n} ${"x".repeat(100)}` }))
    const { id } = await stage.umbra.submit("flow", { list })
    expect((await stage.umbra.wait(id)).status).toBe("FAILED")
    const { facts } = (await stage.ask(`/jobs/${id}/facts?limit=1000`)).body
    const moments = [1, 2, 30, facts.length - 2, facts.length - 1, facts.length]
    const bundle = await build({
      entryPoints: [join(root, entry())],
      bundle: true,
      write: false,
      format: "esm",
      platform: "browser",
      minify: true,
      logLevel: "silent",
    })
    const { graphs, unknown, userAgent } = (await inChromium({
      server: stage.server.url,
      script: readFileSync(join(import.meta.dirname, "core-page.js"), "utf8"),
      answers: (request, response) => {
        if (request.url === "/page/core.js")
          response.setHeader("content-type", "text/javascript").end(bundle.outputFiles[0]!.text)
        else if (request.url === "/page/wanted") response.end(JSON.stringify({ job: id, version, moments }))
        else return false
        return true
      },
      // biome-ignore lint/suspicious/noExplicitAny: a page answers with JSON.
    })) as any
    expect(userAgent).toContain("Chrome")
    expect(unknown).toBe(0)
    for (const index of moments) {
      const { body } = await stage.ask(`/jobs/${id}/graph?at=%23${index}`)
      const moment = { ...facts[index - 1], index }
      const folded = isoGraphAt({ ...graphs[index], moment } as never)
      expect(JSON.parse(JSON.stringify(folded)), `fact ${index}`).toEqual(body)
    }
  })
})
