/** Reads and parses large payloads beside the page, and answers with the rows that are visible. */
import { type JsonAnswer, type JsonCall, JsonHost } from "./host.ts"

const host = new JsonHost()
self.onmessage = async ({ data }: MessageEvent<JsonCall>) => {
  let answer: JsonAnswer
  try {
    answer = { id: data.id, value: await host.call(data) }
  } catch (error) {
    answer = { id: data.id, error: (error as Error).message }
  }
  self.postMessage(answer)
}
