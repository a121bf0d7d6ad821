/** Artifacts over HTTP: uploads and downloads as streams, ranges, conditions, owners. */
import { createHash } from "node:crypto"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { request } from "node:http"
import { connect as connectSocket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { connect } from "../../src/client/index.ts"
import { LocalToken } from "../../src/server/auth/tokens.ts"
import { until } from "../engine/stage.ts"
import { type Answer, openStage, type Stage, type Store, stores } from "./stage.ts"

const sha = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`
const localToken = new LocalToken()
const MIB = 1024 * 1024
const echoes = {
  name: "echoes",
  nodes: [{ id: "a", handler: "transform", config: { value: "{{ input }}" } }],
}

describe.each(Object.entries(stores))("artifacts over HTTP on %s", (_, open) => {
  let store: Store
  let stage: Stage
  let folder: string
  let alice: string
  let bob: string

  beforeAll(async () => {
    store = await open()
    folder = await mkdtemp(join(tmpdir(), "umbra-http-artifacts-"))
    stage = await openStage({
      location: store.location,
      withTokens: true,
      localToken,
      umbra: { artifacts: { location: folder, maxBytes: 64 * MIB } },
    })
    alice = await stage.token("alice", "read", "submit", "manage")
    bob = await stage.token("bob", "read", "submit", "manage")
  })

  afterAll(async () => {
    await stage.close()
    await store.remove()
    await rm(folder, { recursive: true, force: true })
  })

  const put = (body: string, { token = alice, name = "a.txt", type = "text/plain" } = {}) =>
    stage.ask(`/artifacts?name=${encodeURIComponent(name)}`, {
      ...{ method: "POST", body, token, headers: { "content-type": type } },
    })
  const get = (hash: string, headers: Record<string, string> = {}, token = alice) =>
    stage.ask(`/artifacts/${hash}`, { token, headers })

  it("stores a body of any type, and gives it back as a file that can do nothing", async () => {
    const text = "<script>alert(1)</script>"
    const stored = await put(text, { name: 'ü "x".html', type: "text/html; charset=utf-8" })
    expect(stored.status).toBe(201)
    expect(stored.body).toEqual({
      ...{ artifact: sha(text), name: 'ü "x".html', type: "text/html; charset=utf-8", bytes: text.length },
    })
    const { status, body, headers } = await get(sha(text))
    expect([status, body]).toEqual([200, text])
    expect(Object.fromEntries(headers)).toMatchObject({
      "content-type": "text/html; charset=utf-8",
      "content-length": String(text.length),
      "content-disposition": `attachment; filename="_ _x_.html"; filename*=UTF-8''%C3%BC%20%22x%22.html`,
      "content-security-policy": "default-src 'none'; sandbox",
      "x-content-type-options": "nosniff",
      "accept-ranges": "bytes",
      etag: `"${sha(text)}"`,
      "cache-control": "private, no-cache",
    })
    const named = await stage.ask(`/artifacts/${sha(text)}?name=other.txt`, { token: alice })
    expect(named.headers.get("content-disposition")).toContain('filename="other.txt"')
    const head = await stage.ask(`/artifacts/${sha(text)}`, { method: "HEAD", token: alice })
    expect([head.status, head.body, head.headers.get("content-length")]).toEqual([
      200,
      "",
      String(text.length),
    ])
  })

  it("answers ranges and conditions as RFC 9110 says", async () => {
    await put("0123456789")
    const hash = sha("0123456789")
    const range = async (text: string, more: Record<string, string> = {}) => {
      const { status, body, headers } = await get(hash, { range: text, ...more })
      return [status, status < 300 ? body : body.code, headers.get("content-range")]
    }
    expect(await range("bytes=2-4")).toEqual([206, "234", "bytes 2-4/10"])
    expect(await range("bytes=7-")).toEqual([206, "789", "bytes 7-9/10"])
    expect(await range("bytes=-3")).toEqual([206, "789", "bytes 7-9/10"])
    expect(await range("bytes=-30")).toEqual([206, "0123456789", "bytes 0-9/10"])
    expect(await range("bytes=9-100")).toEqual([206, "9", "bytes 9-9/10"])
    expect(await range("bytes=10-")).toEqual([416, "E809", "bytes */10"])
    expect(await range("bytes=-0")).toEqual([416, "E809", "bytes */10"])
    for (const odd of ["bytes=4-2", "bytes=0-1,3-4", "lines=1-2", "bytes=-", "bytes=a-b"])
      expect(await range(odd)).toEqual([200, "0123456789", null])
    expect(await range("bytes=2-4", { "if-range": `"${hash}"` })).toEqual([206, "234", "bytes 2-4/10"])
    expect(await range("bytes=2-4", { "if-range": '"other"' })).toEqual([200, "0123456789", null])
    const known = await get(hash, { "if-none-match": `"x", W/"${hash}"` })
    expect([known.status, known.body]).toEqual([304, ""])
    // A cache takes over the headers of this answer.
    expect(known.headers.get("etag")).toBe(`"${hash}"`)
    for (const header of ["content-type", "content-length"]) expect(known.headers.get(header)).toBeNull()
    expect((await get(hash, { "if-none-match": '"x"' })).status).toBe(200)
    const head = await stage.ask(`/artifacts/${hash}`, {
      ...{ method: "HEAD", token: alice, headers: { range: "bytes=2-4" } },
    })
    expect([head.status, head.headers.get("content-length")]).toEqual([206, "3"])
  })

  it("refuses a form, and takes the type that curl declares for any file as unknown", async () => {
    const form = new FormData()
    form.append("file", new Blob(["content of a form"], { type: "text/plain" }), "p.txt")
    const headers = { authorization: `Bearer ${alice}` }
    const upload = (body: FormData | string, type?: string) =>
      fetch(`${stage.server.url}/artifacts`, {
        ...{ method: "POST", body },
        headers: type === undefined ? headers : { ...headers, "content-type": type },
      })
    const refused = await upload(form)
    expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([415, "E636"])
    const url = "application/x-www-form-urlencoded"
    expect(await (await upload("uploaded by curl", url)).json()).toMatchObject({
      type: "application/octet-stream",
    })
    // What is known of the content stays known.
    await put("uploaded by curl", { name: "p.csv", type: "text/csv" })
    await upload("uploaded by curl", url)
    const { headers: shown } = await get(sha("uploaded by curl"))
    expect(shown.get("content-type")).toBe("text/csv")
    expect(shown.get("content-disposition")).toContain("p.csv")
  })

  it("refuses bodies that are not the content itself, and says what a type must be", async () => {
    const send = (headers: Record<string, string>) =>
      stage.ask("/artifacts", { method: "POST", body: "not stored", token: alice, headers })
    const cases: [Record<string, string>, number, string][] = [
      [{ "content-type": "a/b", "content-encoding": "gzip" }, 415, "E636"],
      [{ "content-type": "a/b", "content-range": "bytes 0-9/100" }, 400, "E633"],
      [{ "content-type": "nothing" }, 415, "E636"],
    ]
    for (const [headers, status, code] of cases) {
      const refused = await send(headers)
      expect([headers, refused.status, refused.body]).toMatchObject([headers, status, { code }])
      expect(JSON.stringify(refused.body)).not.toContain("yaml")
    }
    expect((await get(sha("not stored"))).status).toBe(404)
    expect((await send({ "content-type": "a/b", "content-encoding": "identity" })).status).toBe(201)
    const huge = await get(sha("not stored"), { range: "bytes=99999999999999999999-" })
    expect(huge.status).toBe(416)
  })

  it("an empty artifact has no range", async () => {
    expect((await put("")).body).toMatchObject({ artifact: sha(""), bytes: 0 })
    expect(await get(sha(""))).toMatchObject({ status: 200, body: "" })
    expect((await get(sha(""), { range: "bytes=0-0" })).status).toBe(416)
  })

  it("keeps owners apart, also if the other one knows the hash", async () => {
    for (const token of [alice, bob]) await stage.ask("/workflows", { method: "POST", token, body: echoes })
    const referring = async (text: string) => {
      const body = { workflow: "echoes", input: { file: (await put(text)).body } }
      return (await stage.ask("/jobs?wait=30", { method: "POST", token: alice, body })).body
    }
    const job = await referring("of alice")
    expect(job.status).toBe("COMPLETED")
    const removed = sha("removed of alice")
    await referring("removed of alice")
    await stage.ask(`/artifacts/${removed}?force=true`, { method: "DELETE", token: alice })
    // The same answers, but for the hash and the job, as for what does not exist.
    const answers = async (hash: string, jobId: string) => {
      const of = (method: string, headers: Record<string, string> = {}, query = "") =>
        stage.ask(`/artifacts/${hash}${query}`, { method, headers, token: bob })
      const conditions: Record<string, string>[] = [
        {},
        { range: "bytes=0-1" },
        { range: "bytes=999-" },
        { range: "bytes=-0" },
        { range: "bytes=0-1", "if-range": `"${hash}"` },
        { "if-none-match": `"${hash}"` },
        { "if-none-match": "*" },
        { "if-match": "*" },
        { "if-modified-since": new Date(0).toUTCString() },
      ]
      const asked: Answer[] = []
      for (const headers of conditions) asked.push(await of("GET", headers), await of("HEAD", headers))
      asked.push(
        await of("GET", {}, "?name=mine.txt"),
        await of("DELETE"),
        await of("DELETE", {}, "?force=true"),
      )
      const post = (path: string, body: object) => stage.ask(path, { method: "POST", token: bob, body })
      const input = { deep: [{ artifact: hash }] }
      const schedule = { workflow: "echoes", cron: "0 0 1 1 *", input }
      asked.push(
        await post("/jobs", { workflow: "echoes", input }),
        await post("/jobs/bulk", { jobs: [{ workflow: "echoes", input }] }),
        await stage.ask("/schedules/mine", { method: "PUT", token: bob, body: schedule }),
        await stage.ask(`/artifacts?limit=1&after=${hash}`, { token: bob }),
        await stage.ask(`/jobs/${jobId}/artifacts`, { token: bob }),
        await stage.ask(`/jobs/${jobId}/logs`, { token: bob }),
      )
      const masked = (text: string) => text.replaceAll(hash, "HASH").replaceAll(jobId, "JOB")
      return asked.map(({ status, headers, body }) => [
        status,
        masked(JSON.stringify(body)),
        [...headers].filter(([name]) => name !== "date").map(([name, value]) => [name, masked(value)]),
      ])
    }
    const nothing = await answers(sha("of nobody"), `${job.job_id.slice(0, -4)}0000`)
    expect(await answers(sha("of alice"), job.job_id)).toEqual(nothing)
    expect(await answers(removed, job.job_id)).toEqual(nothing)
    expect(new Set(nothing.slice(0, 21).map(([status]) => status))).toEqual(new Set([404]))
    expect(nothing.slice(21).map(([status]) => status)).toEqual([422, 200, 422, 200, 404, 404])
    expect((await get(sha("of alice"))).status).toBe(200)
    // The same content of another owner is another artifact, with a name and a life of its own.
    const own = await put("of alice", { token: bob, name: "of bob" })
    expect(own).toMatchObject({ status: 201, body: { name: "of bob", artifact: sha("of alice") } })
    const bobs = await stage.ask("/artifacts", { token: bob })
    expect(bobs.body.artifacts).toMatchObject([{ name: "of bob" }])
    const { headers } = await get(sha("of alice"))
    expect(headers.get("content-disposition")).toContain("a.txt")
    await stage.ask(`/artifacts/${sha("of alice")}`, { method: "DELETE", token: bob })
    expect((await get(sha("of alice"))).status).toBe(200)
  })

  it("needs the scopes read, submit and manage; a sweep needs a command on the machine", async () => {
    const reader = await stage.token("alice", "read")
    await put("scoped")
    expect((await get(sha("scoped"), {}, reader)).status).toBe(200)
    expect((await put("more", { token: reader })).status).toBe(403)
    const remove = (token: string) => stage.ask(`/artifacts/${sha("scoped")}`, { method: "DELETE", token })
    expect((await remove(reader)).status).toBe(403)
    expect((await stage.ask("/artifacts/sweep", { method: "POST", token: alice })).status).toBe(403)
    const admin = await stage.token("alice", "admin")
    const sweep = (token: string) => stage.ask("/artifacts/sweep?dry_run=true", { method: "POST", token })
    expect((await sweep(admin)).status).toBe(403)
    expect((await sweep(localToken.text)).body).toMatchObject({ marked: { count: 0 }, orphans: { count: 0 } })
    expect((await remove(alice)).status).toBe(204)
    expect((await get(sha("scoped"))).body).toMatchObject({ code: "E802" })
  })

  it("refuses to remove what a job refers to; by force its readers get 410", async () => {
    await put("referred")
    const artifact = sha("referred")
    const workflow = {
      name: "keeps",
      nodes: [{ id: "a", handler: "transform", config: { value: "{{ input }}" } }],
    }
    await stage.ask("/workflows", { method: "POST", token: alice, body: workflow })
    const { body: job } = await stage.ask("/jobs?wait=30", {
      ...{ method: "POST", token: alice, body: { workflow: "keeps", input: { file: { artifact } } } },
    })
    expect(job.status).toBe("COMPLETED")
    const list = await stage.ask(`/jobs/${job.job_id}/artifacts`, { token: alice })
    expect(list.body).toMatchObject({
      artifacts: [{ artifact, name: "a.txt", removed_at: null }],
      next: null,
    })
    expect((await stage.ask(`/jobs/${job.job_id}/artifacts`, { token: bob })).status).toBe(404)
    const remove = (query = "") =>
      stage.ask(`/artifacts/${artifact}${query}`, { method: "DELETE", token: alice })
    expect((await remove()).body).toMatchObject({ status: 409, code: "E806" })
    expect((await remove("?force=true")).status).toBe(204)
    expect((await get(artifact)).body).toMatchObject({ status: 410, code: "E803" })
    const [removed] = (await stage.ask(`/jobs/${job.job_id}/artifacts`, { token: alice })).body.artifacts
    expect(removed.removed_at).toMatch(/^20/)
  })

  it("lists in pages", async () => {
    const token = await stage.token("pages", "read", "submit")
    const hashes = ["1", "2", "3"].map(sha).sort()
    for (const text of ["1", "2", "3"]) await put(text, { token })
    const first = await stage.ask("/artifacts?limit=2", { token })
    expect(first.body.artifacts.map((each: { artifact: string }) => each.artifact)).toEqual(
      hashes.slice(0, 2),
    )
    const second = await stage.ask(`/artifacts?limit=2&after=${first.body.next}`, { token })
    expect(second.body).toMatchObject({ artifacts: [{ artifact: hashes[2] }], next: null })
  })

  it("rejects what is too large, with and without a length, and leaves nothing behind", async () => {
    const token = await stage.token("large", "read", "submit")
    const early = await send(stage, token, { "content-length": String(64 * MIB + 1) }, ["x"])
    expect(early).toMatchObject({ status: 413, code: "E804" })
    const chunk = Buffer.alloc(MIB)
    const late = await send(
      stage,
      token,
      {},
      Array.from({ length: 66 }, () => chunk),
    )
    expect(late).toMatchObject({ status: 413, code: "E804" })
    expect(await readdir(join(folder, ".incoming"))).toEqual([])
    expect((await stage.ask("/artifacts", { token })).body.artifacts).toEqual([])
  })

  it("leaves nothing of an upload that breaks off", async () => {
    const socket = connectSocket(Number(new URL(stage.server.url).port), "127.0.0.1")
    socket.on("error", () => {})
    socket.write(
      `POST /artifacts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${alice}\r\nContent-Length: 1000\r\n\r\nsome`,
    )
    await until("it is being written", async () => (await readdir(join(folder, ".incoming"))).length === 1)
    socket.destroy()
    await until("it is gone", async () => (await readdir(join(folder, ".incoming"))).length === 0)
  })

  it("has a client", async () => {
    const token = await stage.token("client", "read", "submit", "manage")
    const { artifacts } = connect({ url: stage.server.url, token })
    const reference = await artifacts.put("a.bin", new Blob(["ab", "cd"]).stream(), { type: "image/x-test" })
    expect(reference).toEqual({ artifact: sha("abcd"), name: "a.bin", type: "image/x-test", bytes: 4 })
    const whole = await artifacts.get(reference)
    expect([whole.type, whole.bytes, await whole.text()]).toEqual(["image/x-test", 4, "abcd"])
    const part = await artifacts.get(reference.artifact, { range: { first: 1, last: 2 } })
    expect([part.bytes, Buffer.from(await part.buffer()).toString()]).toEqual([4, "bc"])
    const found: string[] = []
    for await (const each of artifacts.list({ limit: 1 })) found.push(each.artifact)
    expect(found).toEqual([sha("abcd")])
    await artifacts.remove(reference)
    await expect(artifacts.get(reference)).rejects.toMatchObject({ code: "E802" })
  })
})

it("a quota is that of the owner: what others have stored neither counts nor shows", async () => {
  const stage = await openStage({ withTokens: true, umbra: { artifacts: { quotaBytes: 100 } } })
  onTestFinished(() => stage.close())
  const alice = await stage.token("alice", "read", "submit", "manage")
  const bob = await stage.token("bob", "read", "submit", "manage")
  const put = async (token: string, text: string) => {
    const { status, body } = await stage.ask("/artifacts?name=x", { method: "POST", body: text, token })
    return [status, body.code ?? body.bytes]
  }
  const [shared, other] = ["s".repeat(60), "o".repeat(60)]
  expect(await put(alice, shared)).toEqual([201, 60])
  // It counts as if nobody else had it, and a second time not at all.
  expect(await put(bob, "b".repeat(30))).toEqual([201, 30])
  expect(await put(bob, shared)).toEqual([201, 60])
  for (const text of [shared, other, "c".repeat(11)]) expect(await put(bob, text)).toEqual([409, "E805"])
  expect(await put(bob, "d".repeat(10))).toEqual([201, 10])
  await stage.ask(`/artifacts/${sha(shared)}`, { method: "DELETE", token: bob })
  expect(await put(bob, other)).toEqual([201, 60])
  expect((await stage.ask(`/artifacts/${sha(shared)}`, { token: alice })).status).toBe(200)
})

it("an upload may take longer than other requests, as long as something arrives", async () => {
  // Seconds, so that a process that stands still for a moment is not a client that does.
  const stage = await openStage({ settings: { requestTimeoutSeconds: 4 } })
  onTestFinished(() => stage.close())
  const drip = (async function* () {
    for (let n = 0; n < 25; n++) {
      yield "x"
      await sleep(200)
    }
  })()
  expect(await send(stage, undefined, {}, drip)).toMatchObject({ status: 201, bytes: 25 })
  const stops = (async function* () {
    yield "x"
    await new Promise(() => {})
  })()
  // Without this the test would not end.
  await send(stage, undefined, {}, stops).catch(() => {})
})

async function send(
  { server }: Stage,
  token: string | undefined,
  headers: Record<string, string>,
  body: Iterable<string | Buffer> | AsyncIterable<string | Buffer>,
) {
  const asked = request(`${server.url}/artifacts`, {
    method: "POST",
    headers: { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...headers },
  })
  const answered = new Promise<{ status: number }>((resolve, reject) => {
    asked.on("error", reject)
    asked.on("response", response => {
      let text = ""
      response.on("data", chunk => {
        text += chunk
      })
      response.on("end", () => resolve({ status: response.statusCode!, ...JSON.parse(text) }))
      response.on("error", reject)
    })
  })
  const sending = (async () => {
    for await (const chunk of body)
      if (!asked.write(chunk) && !asked.destroyed)
        await Promise.race([new Promise(resolve => asked.once("drain", resolve)), answered])
    asked.end()
  })()
  sending.catch(() => {})
  return answered
}
