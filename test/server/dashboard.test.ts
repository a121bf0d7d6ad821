import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { brotliCompressSync, gzipSync } from "node:zlib"
import { beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { silentLog } from "../../src/log.ts"
import { type Server, startServer } from "../../src/server/server.ts"
import type { ServerSettings } from "../../src/server/settings.ts"
import { openUmbra } from "../../src/umbra.ts"

const script = "console.log('the dashboard')\n".repeat(50)
const html = "text/html,application/xhtml+xml,*/*;q=0.8"
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "umbra-dashboard-"))
  await mkdir(join(folder, "assets"))
  const page =
    '<!doctype html><html><head><script type="module" src="./assets/main-1a2b.js"></script></head></html>'
  await writeFile(join(folder, "index.html"), page)
  await writeFile(join(folder, "report.html"), "a template")
  await writeFile(join(folder, "icon.svg"), "<svg/>")
  await writeFile(join(folder, "assets/main-1a2b.js"), script)
  await writeFile(join(folder, "assets/main-1a2b.js.br"), brotliCompressSync(script))
  await writeFile(join(folder, "assets/main-1a2b.js.gz"), gzipSync(script))
  await writeFile(join(folder, "assets/.hidden"), "hidden")
  return () => rm(folder, { recursive: true, force: true })
})

async function serve(dashboard = folder, settings: Partial<ServerSettings> = {}): Promise<Server> {
  const umbra = await openUmbra("memory:")
  onTestFinished(() => umbra.close())
  const server = await startServer({
    umbra,
    host: "127.0.0.1",
    port: 0,
    version: "0",
    log: silentLog,
    dashboard,
    settings,
  })
  onTestFinished(() => server.close())
  return server
}

/** With the path as it is: fetch would resolve `..`, and decode the answer. */
function get(url: string, path: string, headers: Record<string, string> = {}) {
  return new Promise<{ status: number; headers: Record<string, unknown>; body: Buffer }>(
    (resolve, reject) => {
      const { hostname, port } = new URL(url)
      const sent = request({ hostname, port, path, headers }, answer => {
        const parts: Buffer[] = []
        answer.on("data", part => parts.push(part))
        answer.on("end", () =>
          resolve({ status: answer.statusCode!, headers: answer.headers, body: Buffer.concat(parts) }),
        )
      })
      sent.on("error", reject).end()
    },
  )
}

describe("the dashboard", () => {
  it("is the page for navigations to / and below /ui, with a policy that allows its own files only", async () => {
    const { url } = await serve()
    for (const path of ["/", "/?x=1", "/ui", "/ui/jobs", "/ui/jobs/0198c0de?at=12"]) {
      const { status, headers, body } = await get(url, path, { accept: html, "sec-fetch-mode": "navigate" })
      expect(status, path).toBe(200)
      expect(headers).toMatchObject({
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-cache",
      })
      const policy = String(headers["content-security-policy"])
      expect(policy).toContain("default-src 'none'; script-src 'self'")
      expect(policy).not.toMatch(/unsafe|https?:|\*/)
      expect(String(body)).toContain(
        '<head><base href="/"><script type="module" src="./assets/main-1a2b.js">',
      )
    }
  })

  it("does not answer programs: they get what they got without it", async () => {
    const { url } = await serve()
    for (const path of ["/", "/ui/jobs"]) {
      const { status, body } = await get(url, path, { accept: "*/*" })
      expect([status, JSON.parse(String(body)).code], path).toEqual([404, "E634"])
    }
    const fetched = await get(url, "/ui/x", { accept: html, "sec-fetch-mode": "cors" })
    expect(fetched.status).toBe(404)
  })

  it("takes no path from the API", async () => {
    const { url } = await serve()
    for (const [path, status] of [
      ["/jobs", 200],
      ["/docs", 200],
      ["/openapi.json", 200],
      ["/jobs/none/nothing", 404],
      ["/nothing", 404],
    ] as const) {
      const answer = await get(url, path, { accept: html })
      expect(answer.status, path).toBe(status)
      expect(String(answer.body), path).not.toContain("main-1a2b")
    }
  })

  it("sends hashed files once, compressed as the browser accepts", async () => {
    const { url } = await serve()
    const file = (encodings: string) => get(url, "/assets/main-1a2b.js", { "accept-encoding": encodings })
    const [br, gzip, plain] = [await file("gzip, br"), await file("gzip"), await file("identity")]
    expect(br.headers).toMatchObject({
      "content-encoding": "br",
      "cache-control": "public, max-age=31536000, immutable",
      "content-type": expect.stringContaining("javascript"),
      "x-content-type-options": "nosniff",
    })
    expect(br.body).toEqual(brotliCompressSync(script))
    expect(gzip.headers["content-encoding"]).toBe("gzip")
    expect(gzip.body).toEqual(gzipSync(script))
    expect(plain.headers["content-encoding"]).toBeUndefined()
    expect(String(plain.body)).toBe(script)
    const again = await get(url, "/assets/main-1a2b.js", { "if-none-match": String(plain.headers.etag) })
    expect(again.status).toBe(304)
    expect((await get(url, "/icon.svg")).headers["content-type"]).toContain("svg")
  })

  it("sends no other file of the machine, no template and no hidden file", async () => {
    const { url } = await serve()
    for (const path of [
      "/assets/../index.html",
      "/assets/..%2findex.html",
      "/assets/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
      "/assets//etc/passwd",
      "/assets/.hidden",
      "/assets/",
      "/assets",
      "/assets/none.js",
      "/report.html",
      "/index.html",
    ]) {
      const { status, body } = await get(url, path)
      expect([400, 403, 404], path).toContain(status)
      expect(String(body), path).not.toMatch(/root:|main-1a2b|hidden"|a template/)
    }
  })

  it("may be linked to from any page, though an open server refuses their other requests", async () => {
    const { url } = await serve()
    const link = { accept: html, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" }
    expect((await get(url, "/ui/jobs/x", link)).status).toBe(200)
    expect((await get(url, "/jobs", link)).status).toBe(403)
    expect((await get(url, "/ui/jobs", { ...link, host: "evil.example" })).status).toBe(403)
  })

  it("works below a path of a proxy, whether the proxy removes it or not", async () => {
    const { url } = await serve(folder, { basePath: "/tools/umbra" })
    for (const path of ["/tools/umbra", "/tools/umbra/", "/tools/umbra/ui/jobs", "/ui/jobs"]) {
      const { status, body } = await get(url, path, { accept: html })
      expect(status, path).toBe(200)
      expect(String(body)).toContain('<base href="/tools/umbra/">')
    }
    for (const path of ["/tools/umbra/jobs?limit=1", "/jobs", "/tools/umbra/assets/main-1a2b.js"])
      expect((await get(url, path)).status, path).toBe(200)
    expect((await get(url, "/tools/umbrajobs")).status).toBe(404)
    await expect(serve(folder, { basePath: '/"><script>' })).rejects.toThrow("base_path")
  })

  it("says so if it was not built", async () => {
    const { url } = await serve(join(folder, "missing"))
    const { status, body } = await get(url, "/", { accept: html })
    expect(status).toBe(404)
    expect(JSON.parse(String(body)).detail).toContain("built without the dashboard")
    expect((await get(url, "/jobs")).status).toBe(200)
    expect((await get(url, "/assets/main-1a2b.js")).status).toBe(404)
  })
})
