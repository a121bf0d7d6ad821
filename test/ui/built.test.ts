/** What the build of the dashboard must be: small, compressed, without inline scripts, part of the package. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs"
import { join, resolve } from "node:path"
import { brotliDecompressSync, gunzipSync } from "node:zlib"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { everything, openUiStage, type UiStage } from "./ui-stage.ts"

const folder = resolve(import.meta.dirname, "../../dist/ui")
const KB = 1024
let stage: UiStage

beforeAll(async () => {
  stage = await openUiStage()
})
afterAll(() => stage?.close())

const assets = () => readdirSync(join(folder, "assets"))

/** Paths of the scripts that a page has loaded. */
async function scriptsOf(path: string, selector: string): Promise<string[]> {
  const { page, close, requests } = await stage.open(path)
  onTestFinished(close)
  await page.waitForSelector(selector)
  // Workers load their script too.
  const workers = page.workers().map(worker => new URL(worker.url()).pathname)
  const scripts = new Set([...requests, ...workers].filter(one => one.endsWith(".js")))
  expect(scripts.size).toBeGreaterThan(0)
  return [...scripts]
}

/** Their sizes, compressed. */
async function loaded(path: string, selector: string): Promise<number> {
  return (await scriptsOf(path, selector)).reduce(
    (sum, script) => sum + statSync(join(folder, `${script}.gz`)).size,
    0,
  )
}

describe("the built dashboard", () => {
  it("loads at most 120 KB of script for the list, 165 KB for a job, and has 220 KB in all", async () => {
    const job = await stage.start(everything, { list: ["a"] })
    const list = await loaded("/", '[data-state="empty"], .jl')
    const page = await loaded(`/ui/jobs/${job}`, ".node")
    expect(list).toBeLessThanOrEqual(120 * KB)
    expect(page).toBeLessThanOrEqual(165 * KB)
    const scripts = assets().filter(name => name.endsWith(".js.gz"))
    const sizes = scripts.map(name => statSync(join(folder, "assets", name)).size)
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(220 * KB)
    expect(await loaded(`/ui/jobs/${job}?node=start&tab=Logs`, ".lg")).toBeLessThanOrEqual(165 * KB)
    expect(page).toBeGreaterThan(list)
    const pipeline = await stage.start({
      name: "flow",
      init: { body: { text: "a" } },
      routes: [{ name: "only", inbound: "only", adapters: [{ type: "log" }] }],
    })
    expect(await loaded(`/ui/jobs/${pipeline}`, ".rcard")).toBeLessThanOrEqual(165 * KB)
  })

  it("loads the log only with its tab", async () => {
    const job = await stage.start({ ...everything, name: "tabs" }, { list: ["a"] })
    const logs = (paths: readonly string[]) => paths.filter(path => path.includes("/logs-tab-"))
    expect(logs(await scriptsOf(`/ui/jobs/${job}?node=start`, ".why, .kv"))).toEqual([])
    expect(logs(await scriptsOf(`/ui/jobs/${job}?node=start&tab=Logs`, ".lg"))).toHaveLength(1)
  })

  it("loads artifacts only with their tab", async () => {
    const job = await stage.start({ ...everything, name: "shown" }, { list: ["a"] })
    const artifacts = (paths: readonly string[]) => paths.filter(path => path.includes("/artifacts-tab-"))
    expect(artifacts(await scriptsOf(`/ui/jobs/${job}?panel=job`, ".kv"))).toEqual([])
    const tab = `/ui/jobs/${job}?panel=job&tab=Artifacts`
    expect(artifacts(await scriptsOf(tab, '.drawer [data-state="empty"]'))).toHaveLength(1)
  })

  it("loads the editor of documents only to edit one", async () => {
    const editor = (paths: readonly string[]) => paths.filter(path => path.includes("/editor-"))
    expect(editor(await scriptsOf("/ui/workflows", '[data-state="empty"], .tbl'))).toEqual([])
    expect(editor(await scriptsOf("/ui/workflows?new=1", ".carea textarea"))).toHaveLength(1)
  })

  it("has every file compressed, with names that change with their content", () => {
    const files = assets().filter(name => !/\.(gz|br)$/.test(name))
    expect(files.length).toBeGreaterThan(4)
    for (const name of files) {
      expect(name).toMatch(/-[\w-]{8}\.(js|css)$/)
      for (const suffix of ["gz", "br"])
        expect(existsSync(join(folder, "assets", `${name}.${suffix}`)), name).toBe(true)
    }
    const [first] = files
    const read = (suffix: string) => readFileSync(join(folder, "assets", `${first}${suffix}`))
    expect(gunzipSync(read(".gz")).equals(read(""))).toBe(true)
    expect(brotliDecompressSync(read(".br")).equals(read(""))).toBe(true)
  })

  it("has no inline script and sends no request to another host", async () => {
    const page = readFileSync(join(folder, "index.html"), "utf8")
    expect(page).not.toMatch(/<script(?![^>]*\bsrc=)/)
    expect(page).not.toMatch(/https?:\/\//)
    expect(page).not.toMatch(/\bstyle=/)
    const job = await stage.start({ ...everything, name: "hosts" }, { list: ["a"] })
    const { page: shown, close } = await stage.open("/docs")
    onTestFinished(close)
    const hosts = new Set<string>()
    shown.on("request", request => hosts.add(new URL(request.url()).host))
    for (const path of ["/", `/ui/jobs/${job}`]) {
      await shown.goto(`${stage.url}${path}`)
      await shown.waitForSelector(".jl, .node")
    }
    expect([...hosts]).toEqual([new URL(stage.url).host])
  })

  it("has one place for the data of a replay file, before the first script", () => {
    const report = readFileSync(join(folder, "report.html"), "utf8")
    expect(report.split("<!--umbra-data-->")).toHaveLength(2)
    expect(report.indexOf("<!--umbra-data-->")).toBeLessThan(report.indexOf("<script"))
    expect(report).not.toMatch(/<(script|link)[^>]*(src|href)=/)
  })
})
