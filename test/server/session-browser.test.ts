/** Pages of another port in a real browser, which sends them the cookies of this one. */
import { createServer, request } from "node:http"
import type { AddressInfo } from "node:net"
import { expect, it, onTestFinished } from "vitest"
import { inChromium } from "../client/browser.ts"
import { ask, hello, openStage } from "./stage.ts"

interface Seen {
  readonly what: string
  readonly hasCookie: boolean
  readonly status: number
}

/** Passes requests on, with their header Host, and notes the answers. */
async function watched(server: string): Promise<{ url: string; seen: Seen[] }> {
  const seen: Seen[] = []
  const proxy = createServer((incoming, response) => {
    const { method = "GET", url = "/", headers } = incoming
    const onward = request(`${server}${url}`, { method, headers }, answer => {
      const hasCookie = /umbra_session_\d+=/.test(headers.cookie ?? "")
      seen.push({ what: `${method} ${url}`, hasCookie, status: answer.statusCode! })
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
    })
    onward.on("error", () => response.destroy())
    incoming.pipe(onward)
  })
  await new Promise<void>(done => proxy.listen(0, "127.0.0.1", done))
  onTestFinished(async () => {
    proxy.closeAllConnections()
    await new Promise(done => proxy.close(done))
  })
  return { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, seen }
}

it("a page on another port gets nothing with the cookie that its browser has, and changes nothing", async () => {
  const stage = await openStage({ withTokens: true })
  onTestFinished(() => stage.close())
  const token = await stage.token("ada", "admin")
  await stage.ask("/workflows", { method: "POST", body: hello, token })
  const { url, seen } = await watched(stage.server.url)
  const login = await ask(url, "/session", {
    method: "POST",
    body: { token },
    headers: { origin: url, "umbra-csrf": "1" },
  })
  const cookie = login.headers.get("set-cookie")!.split(";")[0]!
  seen.length = 0
  const script = `export default async () => {
    const target = ${JSON.stringify(url)}
    // Cookies have no port: what this page sets is sent to the server as if the server had set it.
    document.cookie = ${JSON.stringify(`${cookie}; path=/; SameSite=Strict`)}
    const outcomes = []
    const attempt = (name, run) => run().then(() => outcomes.push(name + " read"), () => {})
    const all = { credentials: "include" }
    await attempt("fetch", async () => { await (await fetch(target + "/jobs", all)).json() })
    await attempt("no-cors", async () => {
      const answer = await fetch(target + "/jobs?limit=2", { ...all, mode: "no-cors" })
      if (answer.type !== "opaque") throw new Error()
      if ((await answer.text()) === "") throw new Error()
    })
    const body = JSON.stringify({ workflow: "hello" })
    const plain = { ...all, method: "POST", mode: "no-cors", headers: { "content-type": "text/plain" }, body }
    await attempt("plain", async () => { if ((await (await fetch(target + "/jobs", plain)).text()) === "") throw 1 })
    const custom = { ...all, method: "POST", headers: { "content-type": "application/json", "umbra-csrf": "1" }, body }
    await attempt("custom header", async () => { await (await fetch(target + "/jobs", custom)).json() })
    await new Promise(done => {
      const image = new Image()
      image.onload = image.onerror = done
      image.src = target + "/jobs?limit=3"
    })
    await new Promise(done => {
      const stream = new EventSource(target + "/jobs/stream", { withCredentials: true })
      stream.onopen = () => { outcomes.push("stream read"); stream.close(); done() }
      stream.onerror = () => { stream.close(); done() }
    })
    await new Promise(done => {
      const frame = document.createElement("iframe")
      frame.name = "target"
      document.body.append(frame)
      const form = document.createElement("form")
      Object.assign(form, { method: "POST", action: target + "/jobs", target: "target", enctype: "text/plain" })
      const field = document.createElement("input")
      Object.assign(field, { name: '{"workflow":"hello","x":"', value: '"}' })
      form.append(field)
      document.body.append(form)
      let loads = 0
      frame.onload = () => { if (++loads > 0) done() }
      form.submit()
    })
    return outcomes
  }`
  const outcomes = await inChromium({ script, server: url, answers: () => false })
  expect(outcomes).toEqual([])
  const attacks = seen.filter(({ what }) => /jobs/.test(what))
  const withCookie = attacks.filter(({ hasCookie }) => hasCookie)
  // The browser did send the cookie: what refused these requests was the server.
  expect(withCookie.map(({ what }) => what)).toEqual(
    expect.arrayContaining([
      "GET /jobs",
      "GET /jobs?limit=2",
      "POST /jobs",
      "GET /jobs?limit=3",
      "GET /jobs/stream",
    ]),
  )
  for (const { what, status } of attacks) expect([403, 405], what).toContain(status)
  const { body } = await stage.ask("/jobs", { token })
  expect(body.jobs).toEqual([])
})

it("a page of the server's own origin logs in, reads, follows a stream, submits and logs out", async () => {
  const stage = await openStage({ withTokens: true })
  onTestFinished(() => stage.close())
  const token = await stage.token("ada", "admin")
  await stage.ask("/workflows", { method: "POST", body: hello, token })
  const script = `export default async () => {
    const csrf = { "umbra-csrf": "1" }
    const json = { "content-type": "application/json", ...csrf }
    const statuses = {}
    const send = async (name, path, options) => { statuses[name] = (await fetch(path, options)).status }
    await send("before", "/jobs")
    await send("login", "/session", { method: "POST", headers: json, body: JSON.stringify({ token: ${JSON.stringify(token)} }) })
    statuses.cookie = document.cookie
    await send("list", "/jobs")
    await send("submit", "/jobs", { method: "POST", headers: json, body: JSON.stringify({ workflow: "hello" }) })
    await new Promise((done, failed) => {
      const stream = new EventSource("/jobs/stream")
      stream.onopen = () => { statuses.stream = "open"; stream.close(); done() }
      stream.onerror = () => failed(new Error("stream"))
    })
    await send("logout", "/session", { method: "DELETE", headers: csrf })
    await send("after", "/jobs")
    return statuses
  }`
  const statuses = await inChromium({ script, server: stage.server.url, answers: () => false })
  expect(statuses).toEqual({
    before: 401,
    login: 201,
    // HttpOnly: scripts do not see it.
    cookie: "",
    list: 200,
    submit: 201,
    stream: "open",
    logout: 204,
    after: 401,
  })
})
