/** Open JSON documents, called by number. In a worker for payloads of the server; in the page for a replay file. */
import { JsonDocument, type JsonRow, type JsonSource, type JsonValue } from "./document.ts"

export type JsonAction =
  /** Reads `address`, or takes `value`; answers with the number of rows. */
  | ({ readonly action: "open" } & JsonSource)
  | { readonly action: "close" }
  | { readonly action: "rows"; readonly from: number; readonly to: number }
  | { readonly action: "toggle"; readonly path: string }
  | { readonly action: "search"; readonly text: string }
  | { readonly action: "reveal"; readonly path: string }
  | { readonly action: "text"; readonly path: string }

export type JsonCall = JsonAction & { readonly id: number; readonly document: number }
export type JsonResult = number | string | null | readonly string[] | readonly number[] | readonly JsonRow[]
export interface JsonAnswer {
  readonly id: number
  readonly value?: JsonResult
  readonly error?: string
}

export class JsonHost {
  readonly #documents = new Map<number, JsonDocument>()

  async call(call: JsonCall): Promise<JsonResult> {
    if (call.action === "open") {
      const value = "address" in call ? await read(call) : call.value
      const opened = new JsonDocument(value)
      this.#documents.set(call.document, opened)
      return opened.length
    }
    const known = this.#documents.get(call.document)
    if (known === undefined) return null
    switch (call.action) {
      case "close":
        this.#documents.delete(call.document)
        return null
      case "rows":
        return known.rows(call.from, call.to)
      case "toggle":
        known.toggle(call.path)
        return known.length
      case "search":
        return known.search(call.text)
      case "reveal":
        return [known.reveal(call.path), known.length]
      case "text":
        return known.entryText(call.path)
    }
  }
}

async function read({
  address,
  headers,
}: Extract<JsonSource, { readonly address: string }>): Promise<JsonValue> {
  const response = await fetch(address, { headers })
  if (response.ok) return (await response.json()) as JsonValue
  const problem = (await response.json().catch(() => null)) as { code?: string; detail?: string } | null
  throw new Error(
    problem?.detail === undefined
      ? `The server answered ${response.status}.`
      : `${problem.code}: ${problem.detail}`,
  )
}
