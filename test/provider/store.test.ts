/** `store` of a provider: what URLs in results and previews point to becomes artifacts, before they expire. */
import type { ServerResponse } from "node:http"
import { describe, expect, it, onTestFinished } from "vitest"
import type { Json } from "../../src/core/json.ts"
import { UrlKeeper } from "../../src/provider/keep.ts"
import { defineProvider } from "../../src/provider/provider.ts"
import { openUmbra } from "../../src/umbra.ts"
import { HttpClient } from "../../src/worker/http/client.ts"
import { sha256 } from "../artifacts/content.ts"
import { until } from "../engine/stage.ts"
import { SWITCH, serveRaw } from "../worker/http/raw-server.ts"
import { type Asked, serve } from "../worker/server.ts"
import { deliver, fakeProvider, make, openWith, waiting } from "./stage.ts"

const png = Buffer.from("\x89PNG\r\n\x1a\n\0\0\0\rIHDR and so on", "latin1")
const reference = { artifact: sha256(png), name: "cat.png", type: "image/png", bytes: png.length }

async function pictures(
  answer: (asked: Asked, response: ServerResponse) => void = (_, response) => response.end(png),
) {
  const server = await serve(answer)
  onTestFinished(server.close)
  return { ...server, cat: `${server.url}/a/cat.png?signature=x` }
}

const worker = { allowPrivateAddresses: ["127.0.0.1"] }
const polled = { over: { store: true, poll_seconds: [0.05] }, worker }

describe("store of a provider", () => {
  it("S9 replaces URLs anywhere in a result by references, and the job holds what they refer to", async () => {
    const { cat, asked } = await pictures()
    const output = {
      images: [{ url: cat, width: 9 }, { url: cat }],
      page: `see ${cat}`,
      other: "ftp://x/y",
      n: null,
    }
    const fake = await fakeProvider({ script: () => ({ steps: [{ do: "complete", output }] }) })
    const umbra = await openWith(fake, polled)
    const job = await umbra.submit(make())
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    expect((await umbra.node(job.id, "film")).output).toEqual({
      ...output,
      images: [{ url: reference, width: 9 }, { url: reference }],
    })
    expect(asked).toHaveLength(1)
    expect((await (await umbra.artifacts.get(reference)).buffer()).equals(png)).toBe(true)
    const { artifacts } = await umbra.artifacts.list({ jobId: job.id })
    expect(artifacts.map(({ artifact }) => artifact)).toEqual([reference.artifact])
  })

  it("sends no credentials to the URL", async () => {
    const { cat, asked } = await pictures()
    const fake = await fakeProvider({ script: () => ({ steps: [{ do: "complete", output: cat }] }) })
    const poll = fake.definition().poll!
    const headers = { authorization: "Bearer {{ secrets.FAKE_PROVIDER_SECRET }}" }
    const umbra = await openWith(fake, { worker, over: { ...polled.over, poll: { ...poll, headers } } })
    const job = await umbra.submit(make())
    await job.wait()
    expect(fake.requests.some(({ authorization }) => authorization !== null)).toBe(true)
    expect(asked.map(one => one.headers.authorization)).toEqual([undefined])
  })

  it("downloads after a webhook too, which is only a hint then", async () => {
    const { cat } = await pictures()
    const fake = await fakeProvider()
    const umbra = await openWith(fake, { worker, over: { store: true, poll_seconds: [3600] } })
    const job = await umbra.submit(make())
    const id = await waiting(umbra, fake, job.id)
    fake.complete(id, cat)
    await deliver(umbra, fake, id)
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    expect((await umbra.node(job.id, "film")).output).toEqual(reference)
  })

  it("shows stored previews, downloaded once; one that cannot be had is shown as it is", async () => {
    const { cat, url, asked } = await pictures(({ path }, response) =>
      path.startsWith("/a/") ? response.end(png) : response.writeHead(404).end(),
    )
    const preview = { frame: cat, other: `${url}/missing` }
    const fake = await fakeProvider({ script: () => ({ steps: [{ do: "show", progress: 10, preview }] }) })
    const umbra = await openWith(fake, polled)
    const job = await umbra.submit(make())
    const seen = async () => (await umbra.node(job.id, "film")).preview as Json
    await until("a preview", async () => (await seen()) != null)
    expect(await seen()).toEqual({ frame: reference, other: preview.other })
    const polls = fake.requests.length
    await until("three more polls", async () => fake.requests.length > polls + 3)
    expect(asked.filter(({ path }) => path.startsWith("/a/"))).toHaveLength(1)
    await umbra.cancel(job.id)
  })

  it("polls again if the download fails, and fails if the URL is gone", async () => {
    let failures = 2
    const { cat, url } = await pictures(({ path }, response) => {
      if (path === "/gone") return response.writeHead(410).end()
      return failures-- > 0 ? response.destroy() : response.end(png)
    })
    const outputs: Record<string, string> = { flaky: cat, gone: `${url}/gone` }
    const fake = await fakeProvider({
      script: ({ request }) => ({
        steps: [{ do: "complete", output: outputs[(request as { scene: string }).scene]! }],
      }),
    })
    const umbra = await openWith(fake, polled)
    const flaky = await umbra.submit(make(["flaky"]))
    expect(await flaky.wait()).toMatchObject({ status: "COMPLETED" })
    expect((await umbra.node(flaky.id, "flaky")).output).toEqual(reference)
    const gone = await umbra.submit(make(["gone"]))
    expect(await gone.wait()).toMatchObject({ status: "FAILED", error: { code: "E411" } })
  })

  it("fails polls whose URL answers with a switch of protocols", async () => {
    await using server = await serveRaw(SWITCH)
    const fake = await fakeProvider({ script: () => ({ steps: [{ do: "complete", output: server.url }] }) })
    const over = { ...polled.over, max_poll_errors: 2 }
    const umbra = await openWith(fake, { worker, over })
    const [node] = make().nodes
    const job = await umbra.submit(make([], { nodes: [{ ...node, retry: { max_attempts: 1 } }] }))
    expect(await job.wait()).toMatchObject({ status: "FAILED", error: { code: "E408" } })
  })

  it("a download that hangs delays no poll of another owner, and a cancel frees its place", async () => {
    const { cat, url, asked } = await pictures(({ path }, response) => path !== "/hang" && response.end(png))
    const outputs: Record<string, Json> = { hang: `${url}/hang`, plain: 1, cat }
    const fake = await fakeProvider({
      script: ({ request }) => ({
        steps: [{ do: "complete", output: outputs[(request as { scene: string }).scene]! }],
      }),
    })
    const over = { ...polled.over, concurrency: 10 }
    const umbra = await openWith(fake, { worker, over, engine: { pollConcurrency: 1 } })
    const hung = await umbra.submit(make(["hang"]), { owner: "a" })
    await until("the download has begun", async () => asked.length === 1)
    const plain = await umbra.submit(make(["plain"]), { owner: "b" })
    expect(await plain.wait()).toMatchObject({ status: "COMPLETED" })
    const kept = await umbra.submit(make(["cat"]), { owner: "b" })
    await waiting(umbra, fake, kept.id, 2)
    expect((await umbra.job(kept.id)).status).toBe("PROCESSING")
    await umbra.cancel(hung.id)
    expect(await kept.wait()).toMatchObject({ status: "COMPLETED" })
  })

  it("all downloads of one result have one time limit", async () => {
    const { url } = await pictures(() => {})
    let released = 0
    const keeping = {
      ...{ owner: "a", signal: new AbortController().signal, now: Date.now },
      put: () => Promise.reject(new Error("never")),
      place: async () => () => void released++,
    }
    const keeper = new UrlKeeper(new HttpClient({ allowPrivateAddresses: true }), 0.1)
    const output = [`${url}/1`, `${url}/2`]
    expect(await keeper.result({ type: "completed", output }, keeping)).toMatchObject({
      type: "error",
      fault: { code: "E408", retryable: true },
    })
    const preview = { type: "running", preview: output } as const
    expect(await keeper.result(preview, keeping)).toEqual(preview)
    expect(released).toBe(2)
    const later = await keeper.result({ type: "completed", output }, { ...keeping, place: async () => null })
    expect(later).toMatchObject({ type: "postponed" })
  })

  it("reaches only allowed addresses", async () => {
    const { cat, asked } = await pictures()
    const fake = await fakeProvider({ script: () => ({ steps: [{ do: "complete", output: cat }] }) })
    const umbra = await openWith(fake, { over: polled.over })
    const job = await umbra.submit(make())
    expect(await job.wait()).toMatchObject({ status: "FAILED", error: { code: "E412" } })
    expect(asked).toEqual([])
  })

  it("stores what a submission returns at once", async () => {
    const { cat } = await pictures()
    const quick = defineProvider({ name: "fake", store: true, submit: () => ({ output: { image: cat } }) })
    const umbra = await openUmbra("memory:", { providers: [quick], worker })
    onTestFinished(() => umbra.close())
    const job = await umbra.submit(make())
    await job.wait()
    expect((await umbra.node(job.id, "film")).output).toEqual({ image: reference })
  })

  it("needs a poll if there are webhooks", () => {
    const definition = { name: "x", store: true, verify: () => true, webhook: () => null } as const
    expect(() => defineProvider(definition as never)).toThrow(/has store, so it needs poll/)
  })
})
