/** Ranges and conditions of requests for content that never changes (RFC 9110). */
import type { IncomingHttpHeaders } from "node:http"
import { rangeWithin } from "../../artifacts/transfer.ts"

/** The bytes that are wanted, both inclusive; null: all. Several ranges, or a range that cannot be read, count as none. Throws E809. */
export function wantedRange(
  { range, "if-range": condition }: IncomingHttpHeaders,
  { etag, bytes }: { readonly etag: string; readonly bytes: number },
): { readonly first: number; readonly last: number } | null {
  if (range === undefined || (condition !== undefined && condition !== etag)) return null
  const [, first, last] = /^bytes=(\d*)-(\d*)$/i.exec(range.trim()) ?? []
  if (first === undefined || last === undefined || first + last === "") return null
  // The last n bytes.
  if (first === "") {
    const count = Math.min(Number(last), bytes)
    return rangeWithin({ first: count === 0 ? bytes : bytes - count }, bytes)
  }
  if (last !== "" && Number(last) < Number(first)) return null
  return rangeWithin({ first: Number(first), last: last === "" ? undefined : Number(last) }, bytes)
}

/** A name for browsers of any age: other characters than these are escaped, or replaced. */
export function attachment(name: string): string {
  const plain = name.replaceAll(/[^\x20-\x7e]|["\\%]/g, "_")
  const escaped = encodeURIComponent(name).replaceAll(
    /['()*]/g,
    character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${escaped}`
}
