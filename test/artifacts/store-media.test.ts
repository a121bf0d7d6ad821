/** `store_media`, and `save_as` of `call_external_service`: content of the network becomes artifacts. */
import type { ServerResponse } from "node:http"
import { gzipSync } from "node:zlib"
import { describe, expect, it, onTestFinished } from "vitest"
import type { JsonObject } from "../../src/core/json.ts"
import { openUmbra, type UmbraOptions } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { flow } from "../engine/stage.ts"
import { type Asked, serve } from "../worker/server.ts"
import { pattern, sha256 } from "./content.ts"
import { urlInThread } from "./fixtures/threads.ts"

const png = Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "latin1"), pattern(300_000)])

async function opened(options: UmbraOptions = {}) {
  const umbra = await openUmbra("memory:", { worker: { allowPrivateAddresses: ["127.0.0.1"] }, ...options })
  onTestFinished(() => umbra.close())
  return umbra
}

async function ran(handler: string, config: JsonObject, options: UmbraOptions = {}) {
  const umbra = await opened(options)
  const job = await umbra.submit(flow([{ id: "store", handler, config, retry: { max_attempts: 1 } }]))
  const { status, error } = await job.wait()
  const { output } = await umbra.node(job.id, "store")
  const content = async (reference: unknown) =>
    (await umbra.artifacts.get(reference as { artifact: string })).buffer()
  return { umbra, status, error, output: output as { readonly body: JsonObject }, content }
}

async function service(answer: (asked: Asked, response: ServerResponse) => void) {
  const server = await serve(answer)
  onTestFinished(server.close)
  return server
}

describe("store_media", () => {
  it("S9 stores what a URL returns, with the type that its bytes have and the name of the URL", async () => {
    const server = await service((_, response) => response.setHeader("content-type", "text/html").end(png))
    const { status, output, content } = await ran("store_media", {
      url: `${server.url}/a/my%20cat.png?size=1`,
    })
    expect(status).toBe("COMPLETED")
    expect(output).toEqual({
      artifact: sha256(png),
      name: "my cat.png",
      type: "image/png",
      bytes: png.length,
    })
    expect((await content(output)).equals(png)).toBe(true)
  })

  it("stores base64, compressed answers and answers after redirects", async () => {
    const server = await service(({ path }, response) => {
      if (path === "/old") response.writeHead(302, { location: "/new/" }).end("moved")
      else response.setHeader("content-encoding", "gzip").end(gzipSync(png))
    })
    const redirected = await ran("store_media", { url: `${server.url}/old` })
    expect(redirected.output).toEqual({
      artifact: sha256(png),
      name: "media.png",
      type: "image/png",
      bytes: png.length,
    })
    const text = await ran("store_media", { base64: png.toString("base64"), name: "a/b.png" })
    expect(text.output).toMatchObject({ artifact: sha256(png), name: "a/b.png", type: "image/png" })
  })

  it.each([
    ["a page instead of an image", "<!DOCTYPE html><html></html>", {}, "no type that is known"],
    ["nothing", "", {}, "is empty"],
    ["an image where video is wanted", png, { types: ["video/*"] }, "is image/png"],
  ])("refuses %s, whatever its server says, and stores nothing", async (_name, body, config, why) => {
    const server = await service((_, response) => response.setHeader("content-type", "video/mp4").end(body))
    const { umbra, error } = await ran("store_media", { url: server.url, ...config })
    expect(error).toMatchObject({ code: "E427", message: expect.stringContaining(why) })
    expect((await umbra.artifacts.list()).artifacts).toEqual([])
  })

  it("ends a download that is too large, counted after decompression", async () => {
    const server = await service((_, response) =>
      response
        .setHeader("content-encoding", "gzip")
        .end(gzipSync(Buffer.concat([png, Buffer.alloc(5_000_000)]))),
    )
    const { umbra, error } = await ran("store_media", { url: server.url, max_bytes: 1_000_000 })
    expect(error).toMatchObject({ code: "E413", message: expect.stringContaining("raise max_bytes") })
    expect((await umbra.artifacts.list()).artifacts).toEqual([])
    const text = await ran("store_media", { base64: png.toString("base64"), max_bytes: 1_000 })
    expect(text.error).toMatchObject({ code: "E413" })
  })

  it("ends a download that does not end, and one whose connection is lost", async () => {
    const server = await service(({ path }, response) => {
      response.write(png)
      if (path === "/cut") setTimeout(() => response.destroy(), 20)
    })
    for (const path of ["/slow", "/cut"]) {
      const { umbra, error } = await ran("store_media", { url: `${server.url}${path}`, timeout_seconds: 0.5 })
      expect(error).toMatchObject({ code: "E408" })
      expect((await umbra.artifacts.list()).artifacts).toEqual([])
    }
  })

  it("reaches only allowed addresses, also after a redirect", async () => {
    const inner = await service((_, response) => response.end(png))
    const direct = await ran("store_media", { url: inner.url }, { worker: { allowPrivateAddresses: false } })
    expect(direct.error).toMatchObject({ code: "E412" })
    const server = await service((_, response) =>
      response.writeHead(302, { location: `http://127.0.0.2:${inner.port}/` }).end(),
    )
    expect((await ran("store_media", { url: server.url })).error).toMatchObject({ code: "E412" })
    expect(inner.asked).toEqual([])
  })

  it("fails as call_external_service does where a service fails", async () => {
    const server = await service(({ path }, response) =>
      response.writeHead(Number(path.slice(1))).end("x".repeat(9_000)),
    )
    const failures = [404, 429, 503].map(status => ran("store_media", { url: `${server.url}/${status}` }))
    expect((await Promise.all(failures)).map(({ error }) => error?.code)).toEqual(["E411", "E409", "E410"])
  })

  it.each([
    [{}, "either url or base64"],
    [{ url: "http://a", base64: "AAAA" }, "either url or base64"],
    [{ url: "ftp://a" }, "http or https"],
    [{ url: "http://a", types: ["png"] }, "image/png"],
    [{ url: "http://a", max_bytes: 0 }, "max_bytes"],
    [{ base64: "not base64!" }, "base64"],
  ])("the config %j is refused when the workflow is checked", async (config, what) => {
    const umbra = await opened()
    await expect(umbra.submit(flow([{ id: "store", handler: "store_media", config }]))).rejects.toMatchObject(
      {
        message: expect.stringContaining(what),
      },
    )
  })
})

describe("put of ctx.artifacts with a URL", () => {
  const put = defineHandler({
    name: "put_url",
    run: async (config, ctx) => {
      const { url, type } = config as { url: string; type?: string }
      return ctx.artifacts.put("from a URL", new URL(url), type === undefined ? {} : { type })
    },
  })
  const handlers = [put, urlInThread]

  it("S9 stores what it returns, with the type that its bytes have, the declared one, or the given one", async () => {
    const server = await service(({ path, headers }, response) => {
      expect(headers.authorization).toBeUndefined()
      if (path === "/old") response.writeHead(302, { location: "/png" }).end()
      else if (path === "/png") response.setHeader("content-type", "text/html").end(png)
      else response.setHeader("content-type", "text/csv; charset=utf-8").end("a,b")
    })
    const image = await ran("put_url", { url: `${server.url}/old` }, { handlers })
    expect(image.output).toEqual({
      ...{ artifact: sha256(png), name: "from a URL", type: "image/png", bytes: png.length },
    })
    expect((await image.content(image.output)).equals(png)).toBe(true)
    const table = await ran("put_url", { url: `${server.url}/csv` }, { handlers })
    expect(table.output).toMatchObject({ type: "text/csv", bytes: 3 })
    const given = await ran("put_url", { url: `${server.url}/csv`, type: "text/plain" }, { handlers })
    expect(given.output).toMatchObject({ type: "text/plain" })
  })

  it("reaches only addresses that call_external_service may reach, in threads too, also after a redirect", async () => {
    const inner = await service((_, response) => response.end(png))
    const server = await service((_, response) =>
      response.writeHead(302, { location: `http://127.0.0.2:${inner.port}/` }).end(),
    )
    for (const handler of ["put_url", "url_in_thread"]) {
      const config = { url: inner.url, name: "a" }
      const refused = await ran(handler, config, { handlers, worker: { allowPrivateAddresses: false } })
      expect(refused.error, handler).toMatchObject({ code: "E412" })
      const redirected = await ran(handler, { ...config, url: server.url }, { handlers })
      expect(redirected.error, handler).toMatchObject({ code: "E412" })
      expect(inner.asked).toEqual([])
      expect((await redirected.umbra.artifacts.list()).artifacts).toEqual([])
    }
    const { output } = await ran("url_in_thread", { url: inner.url, name: "a" }, { handlers })
    expect(output).toMatchObject({ file: { artifact: sha256(png) } })
  })

  it("has the limit of artifacts, in threads too, and fails as the service does", async () => {
    const server = await service(({ path }, response) =>
      path === "/" ? response.end(png) : response.writeHead(Number(path.slice(1))).end(),
    )
    const artifacts = { maxBytes: 100_000 }
    for (const handler of ["put_url", "url_in_thread"]) {
      const { umbra, error } = await ran(handler, { url: server.url, name: "a" }, { handlers, artifacts })
      expect(error, handler).toMatchObject({ code: expect.stringMatching(/^E(413|804)$/) })
      expect((await umbra.artifacts.list()).artifacts).toEqual([])
    }
    const failures = [404, 429, 503].map(status =>
      ran("put_url", { url: `${server.url}/${status}` }, { handlers }),
    )
    expect((await Promise.all(failures)).map(({ error }) => error?.code)).toEqual(["E411", "E409", "E410"])
    const other = await ran("put_url", { url: "ftp://127.0.0.1/a" }, { handlers })
    expect(other.error?.message).toContain("cannot be read from ftp:")
  })
})

describe("a part of the content that was not requested", () => {
  const put = defineHandler({
    name: "put_url",
    run: (config, ctx) => ctx.artifacts.put("x", new URL((config as { url: string }).url)),
  })
  const parts = () =>
    service(({ path }, response) =>
      response.writeHead(Number(path.slice(1)), { "content-range": "bytes 0-9/1000" }).end(png),
    )

  it("is an error of the service, and nothing is stored", async () => {
    const { url } = await parts()
    for (const status of [206, 200])
      for (const [name, config] of [
        ["store_media", {}],
        ["put_url", {}],
        ["call_external_service", { save_as: "x" }],
      ] as const) {
        const { umbra, error } = await ran(name, { url: `${url}/${status}`, ...config }, { handlers: [put] })
        expect([name, error?.code]).toEqual([name, "E411"])
        expect((await umbra.artifacts.list()).artifacts).toEqual([])
      }
  })

  it("is stored if the node requests it", async () => {
    const { url } = await parts()
    const config = { url: `${url}/206`, headers: { Range: "bytes=0-9" } }
    expect((await ran("store_media", config)).output).toMatchObject({ artifact: sha256(png) })
    const saved = await ran("call_external_service", { ...config, save_as: "x" })
    expect(saved.output).toMatchObject({ status: 206, body: { artifact: sha256(png) } })
    const expected = { url: `${url}/206`, expected_status: 206, save_as: "x" }
    expect((await ran("call_external_service", expected)).output).toMatchObject({ status: 206 })
  })

  it("nor is an answer without the content stored", async () => {
    const server = await service(({ path }, response) => response.writeHead(Number(path.slice(1))).end())
    for (const status of [202, 204, 205]) {
      const { error } = await ran("put_url", { url: `${server.url}/${status}` }, { handlers: [put] })
      expect(error).toMatchObject({ code: "E411" })
    }
  })

  it("a declared type that is too long or none is application/octet-stream", async () => {
    const types = [`text/${"a".repeat(300)}`, "text", "a/b/c", "", "text/ü; x"]
    const server = await service(({ path }, response) =>
      response.setHeader("content-type", types[Number(path.slice(1))]!).end("unknown"),
    )
    for (const n of types.keys()) {
      const { output } = await ran("put_url", { url: `${server.url}/${n}` }, { handlers: [put] })
      expect(output).toMatchObject({ type: "application/octet-stream" })
    }
  })
})

describe("save_as of call_external_service", () => {
  it("S9 stores the body, which the output refers to", async () => {
    const rows = Buffer.from("id,name\n1,Ada\n".repeat(1_000_000))
    const server = await service((_, response) =>
      response.writeHead(201, { "content-type": "text/csv; charset=utf-8", "x-id": "7" }).end(rows),
    )
    const config = {
      method: "POST",
      url: server.url,
      json: {},
      save_as: "rows.csv",
      max_response_bytes: 20_000_000,
    }
    const { output, content } = await ran("call_external_service", config)
    expect(output).toEqual({
      status: 201,
      headers: expect.objectContaining({ "x-id": "7" }),
      encoding: "artifact",
      body: { artifact: sha256(rows), name: "rows.csv", type: "text/csv", bytes: rows.length },
    })
    expect((await content(output.body)).equals(rows)).toBe(true)
  })

  it("does not treat content as media without a check", async () => {
    const server = await service((_, response) =>
      response.setHeader("content-type", "image/png").end("<script>"),
    )
    const { output } = await ran("call_external_service", { url: server.url, save_as: "x" })
    expect(output.body.type).toBe("application/octet-stream")
  })

  it("stores nothing of an answer with another status, or one that is too large", async () => {
    const server = await service(({ path }, response) =>
      response.writeHead(path === "/gone" ? 410 : 200).end("x".repeat(100_000)),
    )
    const gone = await ran("call_external_service", { url: `${server.url}/gone`, save_as: "x" })
    expect(gone.error).toMatchObject({ code: "E411" })
    const large = await ran("call_external_service", {
      url: server.url,
      save_as: "x",
      max_response_bytes: 1_000,
    })
    expect(large.error).toMatchObject({ code: "E413" })
    for (const { umbra } of [gone, large]) expect((await umbra.artifacts.list()).artifacts).toEqual([])
  })

  it("is needed for more than 16 MiB", async () => {
    const umbra = await opened()
    const config = { url: "http://a", max_response_bytes: 20_000_000 }
    await expect(
      umbra.submit(flow([{ id: "x", handler: "call_external_service", config }])),
    ).rejects.toMatchObject({
      message: expect.stringContaining("Without save_as"),
    })
  })
})
