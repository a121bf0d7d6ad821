/** `store_media`: content of a URL, or of a text in base64, becomes an artifact (S9). */
import type { z } from "zod"
import { activeTraceHeader } from "../../trace.ts"
import { finalError } from "../fail.ts"
import { defineHandler, type HandlerContext } from "../handler.ts"
import type { HttpClient } from "../http/client.ts"
import { beginning, type Download, download, fileName } from "../http/download.ts"
import { detectMediaType, fileExtension, isAccepted } from "../media-type.ts"
import { storeMediaSpec } from "./specs.ts"

type Config = z.output<typeof storeMediaSpec.config>

export const storeMedia = (http: HttpClient) =>
  defineHandler({
    ...storeMediaSpec,
    async run(config, ctx) {
      if (config.url === undefined) return storeText(config, ctx)
      const stream = await download(http, buildDownload({ ...config, url: config.url }, ctx))
      const { head, body } = await beginning(stream.body)
      try {
        const type = acceptedType(head, config.types, stream.url.origin)
        return await ctx.artifacts.put(
          config.name ?? fileName(stream.url) ?? `media.${fileExtension(type)}`,
          body,
          { type },
        )
      } finally {
        await stream.body.return()
      }
    },
  })

async function storeText({ base64 = "", name, types, max_bytes }: Config, ctx: HandlerContext) {
  const content = Buffer.from(base64, "base64")
  if (content.length > max_bytes)
    throw finalError("E413", `The content has more than ${max_bytes} bytes. Store less, or raise max_bytes.`)
  const type = acceptedType(content, types, "base64")
  return ctx.artifacts.put(name ?? `media.${fileExtension(type)}`, content, { type })
}

/** With a provider, every request beyond the first takes a place in its rate. */
function buildDownload(
  { url, headers = {}, max_bytes, timeout_seconds }: Config & { readonly url: string },
  { signal, now, provider, place }: HandlerContext,
): Download {
  const own = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value)])
  return {
    ...{ url: new URL(url), signal, now, timeoutSeconds: timeout_seconds },
    ...{ maxResponseBytes: max_bytes, limitName: "max_bytes" },
    headers: { ...activeTraceHeader(), ...Object.fromEntries(own) },
    again: provider === null ? undefined : place,
  }
}

function acceptedType(head: Uint8Array, types: readonly string[], source: string): string {
  const type = detectMediaType(head)
  if (type !== undefined && isAccepted(type, types)) return type
  const what =
    head.length === 0 ? "is empty" : type === undefined ? "has no type that is known" : `is ${type}`
  throw finalError(
    "E427",
    `The content of ${source} ${what}, and types accepts ${types.join(", ")}. Check what it returns, or change types.`,
  )
}
