// What this pipeline needs besides the built-in adapters.
import { defineAdapter, emission } from "umbra"
import { z } from "zod"

/** Text of a page, and a message for each page that it links to and nobody has asked for yet. */
export const extract = defineAdapter({
  type: "extract",
  config: z.strictObject({ url: z.string(), html: z.string() }),
  async process(_message, { config: { url, html }, storage, emit }) {
    // The page that the crawl began with: nobody has claimed it.
    await storage.claim(url)
    for (const [, href] of html.matchAll(/<a href="([^"]+)"/g)) {
      const link = new URL(href, url).href
      if (await storage.claim(link)) emit({ url: link }, { kind: "link" })
    }
    const title = /<title>(.*?)<\/title>/.exec(html)?.[1] ?? ""
    const text = /<main>(.*?)<\/main>/s.exec(html)?.[1] ?? ""
    return { url, title, text }
  },
})

/** Pieces of a text, by sentences, each not much longer than `characters`. */
export const chunk = defineAdapter({
  type: "chunk",
  config: z.strictObject({ characters: z.int().default(50) }),
  *process({ body: { url, title, text } }, { config: { characters } }) {
    let piece = ""
    let number = 0
    for (const sentence of text.match(/[^.]+\.?\s*/g) ?? []) {
      piece += sentence
      if (piece.length < characters) continue
      yield emission({ url, title, chunk: ++number, text: piece.trim() })
      piece = ""
    }
    if (piece !== "") yield emission({ url, title, chunk: ++number, text: piece.trim() })
  },
})

/** Each chunk with its vector. */
export const withVectors = defineAdapter({
  type: "with_vectors",
  config: z.strictObject({
    chunks: z.array(z.record(z.string(), z.unknown())),
    vectors: z.array(z.array(z.number())),
  }),
  storesConfig: true,
  process: (_message, { config: { chunks, vectors } }) =>
    chunks.map((each, position) => ({ ...each, vector: vectors[position] })),
})
