/** One connection to a stream of the server. */
import { SseParser } from "../../../src/client/sse.ts"
import { ownHeaders } from "./http.ts"

/** The server sends a comment every 25 s: after three of them were missed, the connection counts as lost. */
const SILENCE_MS = 75_000

interface StreamOptions {
  readonly address: string
  readonly signal: AbortSignal
  readonly onOpen: () => void
  readonly onEvent: (event: string, data: unknown, id: string) => void
}

/** Resolves when the server has closed the stream, rejects when the connection was lost. */
export async function readStream({ address, signal, onOpen, onEvent }: StreamOptions): Promise<void> {
  const cut = new AbortController()
  const abort = () => cut.abort()
  signal.addEventListener("abort", abort)
  if (signal.aborted) abort()
  let silence = setTimeout(abort, SILENCE_MS)
  try {
    const headers = { ...ownHeaders(), accept: "text/event-stream" }
    const response = await fetch(address, { headers, signal: cut.signal })
    if (!response.ok || response.body === null) throw new Error(`The server answered ${response.status}`)
    onOpen()
    const reader = response.body.getReader()
    const parser = new SseParser()
    for (;;) {
      const { done, value } = await reader.read()
      if (done || signal.aborted) return
      clearTimeout(silence)
      silence = setTimeout(abort, SILENCE_MS)
      for (const { event, data, lastEventId } of parser.push(value))
        onEvent(event, JSON.parse(data), lastEventId)
    }
  } finally {
    clearTimeout(silence)
    signal.removeEventListener("abort", abort)
    cut.abort()
  }
}
