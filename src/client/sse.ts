/**
 * Parses server-sent events from bytes, as specified by the HTML standard.
 *
 * 1. Chunks may be split anywhere: inside a character, a line end, a field or a byte order mark.
 * 2. An event that the end of the stream cuts off is dropped.
 */
export interface SseMessage {
  /** `message` if the server sent no name. */
  readonly event: string
  readonly data: string
  /** The last id that was sent, with this event or an earlier one; "" if none was. */
  readonly lastEventId: string
}

export class SseParser {
  // Removes a byte order mark, and keeps an incomplete character for the next chunk.
  readonly #decoder = new TextDecoder()
  /** The current line, in parts: joining them each time would be quadratic. */
  #open: string[] = []
  #endedWithCr = false
  #event = ""
  #data: string[] = []
  #id = ""
  /** The id of the last complete event, also of one without data: where to resume. */
  lastEventId = ""
  /** The reconnection time that the server requested; null: none. */
  retryMs: number | null = null

  push(bytes: Uint8Array): SseMessage[] {
    let text = this.#decoder.decode(bytes, { stream: true })
    if (text === "") return []
    // A line feed that belongs to the carriage return of the previous chunk.
    if (this.#endedWithCr && text.startsWith("\n")) text = text.slice(1)
    this.#endedWithCr = text === "" ? false : text.endsWith("\r")
    const lines = text.split(/\r\n|\r|\n/)
    const rest = lines.pop()!
    const messages: SseMessage[] = []
    for (const line of lines) {
      const whole = this.#open.length === 0 ? line : this.#open.join("") + line
      if (this.#open.length > 0) this.#open = []
      const message = this.#line(whole)
      if (message !== null) messages.push(message)
    }
    if (rest !== "") this.#open.push(rest)
    return messages
  }

  #line(line: string): SseMessage | null {
    if (line === "") return this.#dispatch()
    const colon = line.indexOf(":")
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1)
    if (field === "data") this.#data.push(value)
    else if (field === "event") this.#event = value
    else if (field === "id" && !value.includes("\0")) this.#id = value
    else if (field === "retry" && /^\d+$/.test(value)) this.retryMs = Number(value)
    return null
  }

  #dispatch(): SseMessage | null {
    const [event, data] = [this.#event, this.#data]
    this.#event = ""
    this.#data = []
    this.lastEventId = this.#id
    if (data.length === 0) return null
    return { event: event === "" ? "message" : event, data: data.join("\n"), lastEventId: this.#id }
  }
}
