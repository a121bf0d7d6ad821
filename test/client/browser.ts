/** Chromium with one page, on an origin that serves the built client and passes the rest to a server of Umbra. */
import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { text } from "node:stream/consumers"
import { loadedWith } from "../shape/built.ts"
import { chromiumPath } from "../support/services.ts"

const root = resolve(import.meta.dirname, "../..")
const loadable = new Set(loadedWith("dist/client/index.js").files.map(file => `/${file}`))

export interface Page {
  /** A module; what its default export resolves with, or why it failed, is the result. */
  readonly script: string
  /** Where requests for anything else go. */
  readonly server: string
  /** Answers instead of the server; false: it does not. */
  readonly answers: (request: IncomingMessage, response: ServerResponse) => boolean
}

const html = `<!doctype html><meta charset="utf-8"><title>client</title><script type="module">
const tell = result => fetch("/page/result", { method: "POST", body: JSON.stringify(result) })
try {
  const { default: run } = await import("/page/script.js")
  await tell({ result: await run(location.origin) })
} catch (error) {
  await tell({ error: String(error?.stack ?? error) })
}
</script>`

/** What the page's script came to. Rejects if it failed. */
export async function inChromium({ script, server, answers }: Page): Promise<unknown> {
  let settle: (answer: { result?: unknown; error?: string }) => void
  const answer = new Promise<{ result?: unknown; error?: string }>(resolved => {
    settle = resolved
  })
  const origin = createServer(async (incoming, response) => {
    const { url = "/" } = incoming
    if (url === "/page") response.setHeader("content-type", "text/html").end(html)
    else if (url === "/page/script.js") sendScript(response, script)
    else if (loadable.has(url)) sendScript(response, readFileSync(join(root, url), "utf8"))
    else if (url === "/page/result") {
      response.end()
      settle(JSON.parse(await text(incoming)))
    } else if (!answers(incoming, response)) passOn(incoming, response, server)
  })
  await new Promise<void>(done => origin.listen(0, "127.0.0.1", done))
  const profile = await mkdtemp(join(tmpdir(), "umbra-chromium-"))
  const address = `http://127.0.0.1:${(origin.address() as AddressInfo).port}/page`
  const flags = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    `--user-data-dir=${profile}`,
    "--remote-debugging-port=0",
  ]
  // It is killed, and leaves what it has in the folder for temporary files.
  const env = { ...process.env, TMPDIR: profile }
  const chromium = spawn(chromiumPath(), [...flags, address], { stdio: "ignore", env })
  const ended = new Promise<void>(done => chromium.once("close", () => done()))
  try {
    const { result, error } = await Promise.race([
      answer,
      ended.then((): { result?: unknown; error?: string } => ({
        error: "Chromium ended before the page told its result",
      })),
    ])
    if (error !== undefined) throw new Error(error)
    return result
  } finally {
    chromium.kill("SIGKILL")
    await ended
    origin.closeAllConnections()
    await new Promise(done => origin.close(done))
    await rm(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  }
}

function sendScript(response: ServerResponse, script: string): void {
  response.setHeader("content-type", "text/javascript").end(script)
}

function passOn(incoming: IncomingMessage, response: ServerResponse, server: string): void {
  const { method, headers, url = "/" } = incoming
  const onward = request(`${server}${url}`, { method: method ?? "GET", headers }, answer => {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(response)
  })
  onward.on("error", () => response.destroy())
  incoming.pipe(onward)
}
