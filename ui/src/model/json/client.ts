/** Handles of JSON documents. The worker starts with the first document that is read from the server. */

import type { JsonRow, JsonSource } from "./document.ts"
import { type JsonAction, type JsonAnswer, type JsonCall, JsonHost, type JsonResult } from "./host.ts"

type Call = (call: JsonCall) => Promise<JsonResult>

let calls = 0
let documents = 0
const local = new JsonHost()
let remote: Call | null = null

function startWorker(): Call {
  const worker = new Worker(new URL("./json-worker.ts", import.meta.url), { type: "module" })
  const waiting = new Map<number, { done: (value: JsonResult) => void; failed: (error: Error) => void }>()
  worker.onmessage = ({ data: { id, value, error } }: MessageEvent<JsonAnswer>) => {
    const caller = waiting.get(id)
    waiting.delete(id)
    if (error === undefined) caller?.done(value!)
    else caller?.failed(new Error(error))
  }
  // Its script could not be loaded. The next document starts another worker.
  worker.onerror = () => {
    remote = null
    worker.terminate()
    for (const { failed } of waiting.values()) failed(new Error("The server did not answer."))
    waiting.clear()
  }
  return call =>
    new Promise((done, failed) => {
      waiting.set(call.id, { done, failed })
      worker.postMessage(call)
    })
}

export class JsonHandle {
  readonly #document = documents++
  readonly #call: Call
  length = 0

  private constructor(call: Call) {
    this.#call = call
  }

  /** `address`: read by the worker; `value`: kept in the page. */
  static async open(source: JsonSource): Promise<JsonHandle> {
    if ("address" in source) remote ??= startWorker()
    const handle = new JsonHandle("address" in source ? remote! : call => local.call(call))
    handle.length = (await handle.#ask({ action: "open", ...source })) as number
    return handle
  }

  close(): void {
    void this.#ask({ action: "close" })
  }

  async rows(from: number, to: number): Promise<readonly JsonRow[]> {
    return ((await this.#ask({ action: "rows", from, to })) as readonly JsonRow[] | null) ?? []
  }

  async toggle(path: string): Promise<void> {
    this.length = (await this.#ask({ action: "toggle", path })) as number
  }

  async search(text: string): Promise<readonly string[]> {
    return (await this.#ask({ action: "search", text })) as readonly string[]
  }

  async reveal(path: string): Promise<number> {
    const [row, length] = (await this.#ask({ action: "reveal", path })) as readonly number[]
    this.length = length!
    return row!
  }

  async text(path: string): Promise<string> {
    return (await this.#ask({ action: "text", path })) as string
  }

  #ask(action: JsonAction): Promise<JsonResult> {
    return this.#call({ ...action, id: calls++, document: this.#document })
  }
}
