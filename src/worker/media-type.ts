/**
 * Detects the type of content from its first bytes: the type that a server sends is not trusted. Formats that browsers show, and a few that are
 * stored beside them. A table of our own: libraries for this parse hundreds of formats, deep into untrusted content.
 */

/** How many bytes are examined. */
export const HEAD_BYTES = 1024

/** Bytes at an offset; a `?` is any byte. */
const signatures: readonly (readonly [type: string, text: string, offset?: number])[] = [
  ["image/png", "\x89PNG\r\n\x1a\n"],
  ["image/jpeg", "\xff\xd8\xff"],
  ["image/gif", "GIF87a"],
  ["image/gif", "GIF89a"],
  ["image/webp", "RIFF????WEBP"],
  ["image/bmp", "BM????\0\0\0\0"],
  ["image/tiff", "II*\0"],
  ["image/tiff", "MM\0*"],
  ["image/x-icon", "\0\0\x01\0"],
  ["image/jxl", "\0\0\0\x0cJXL \r\n\x87\n"],
  ["image/jxl", "\xff\x0a"],
  ["audio/wav", "RIFF????WAVE"],
  ["video/x-msvideo", "RIFF????AVI "],
  ["audio/aiff", "FORM????AIFF"],
  ["audio/flac", "fLaC"],
  ["audio/midi", "MThd"],
  ["audio/mpeg", "ID3"],
  ["video/mpeg", "\0\0\x01\xba"],
  ["video/mpeg", "\0\0\x01\xb3"],
  ["application/pdf", "%PDF-"],
  ["application/zip", "PK\x03\x04"],
  ["application/zip", "PK\x05\x06"],
  ["application/gzip", "\x1f\x8b\x08"],
]

/** The brands of ISO media files that are not video/mp4. */
const brands: readonly (readonly [type: string, pattern: RegExp])[] = [
  ["image/avif", /^avi[fs]/],
  ["image/heic", /^hei[cx]|^hev[cx]/],
  ["image/heif", /^mif1|^msf1/],
  ["video/quicktime", /^qt {2}/],
  ["audio/mp4", /^M4[AB] /],
  ["video/3gpp", /^3g/],
]

/** undefined: none that is known. */
export function detectMediaType(content: Uint8Array): string | undefined {
  const head = Buffer.from(content.subarray(0, HEAD_BYTES)).toString("latin1")
  const found = signatures.find(([, bytes, offset = 0]) => matches(head, bytes, offset))
  return found?.[0] ?? container(head) ?? mpegAudio(head) ?? svg(head)
}

function matches(head: string, bytes: string, offset: number): boolean {
  if (head.length < offset + bytes.length) return false
  for (let at = 0; at < bytes.length; at++)
    if (bytes[at] !== "?" && bytes[at] !== head[offset + at]) return false
  return true
}

function container(head: string): string | undefined {
  if (head.slice(4, 8) === "ftyp") {
    const brand = head.slice(8, 12)
    return brands.find(([, pattern]) => pattern.test(brand))?.[0] ?? "video/mp4"
  }
  if (/^(wide|mdat|moov)$/.test(head.slice(4, 8))) return "video/quicktime"
  if (head.startsWith("\x1a\x45\xdf\xa3")) return head.includes("webm") ? "video/webm" : "video/matroska"
  if (!head.startsWith("OggS")) return undefined
  return /theora|\x80daala/.test(head.slice(0, 64)) ? "video/ogg" : "audio/ogg"
}

/** A frame without a tag: eleven bits of sync, a layer and a bit rate that exist. */
function mpegAudio(head: string): string | undefined {
  const [first = 0, second = 0, third = 0] = [0, 1, 2].map(at => head.charCodeAt(at))
  if (first !== 0xff) return undefined
  if ((second & 0xf6) === 0xf0) return "audio/aac"
  const hasLayer = (second & 0xe0) === 0xe0 && (second & 0x18) !== 0x08 && (second & 0x06) !== 0
  return hasLayer && third >> 4 !== 0x0f && third >> 4 !== 0 && (third & 0x0c) !== 0x0c
    ? "audio/mpeg"
    : undefined
}

function svg(head: string): string | undefined {
  const text = head.replace(/^\xef\xbb\xbf/, "")
  return /^\s*(<\?xml[^>]*\?>\s*)?(<!--[^>]*-->\s*|<!DOCTYPE svg[^>]*>\s*)*<svg[\s>]/.test(text)
    ? "image/svg+xml"
    : undefined
}

const extensions: Readonly<Record<string, string>> = {
  "audio/mp4": "m4a",
  "audio/mpeg": "mp3",
  "image/jpeg": "jpg",
  "image/svg+xml": "svg",
  "image/x-icon": "ico",
  "video/matroska": "mkv",
  "video/quicktime": "mov",
  "video/x-msvideo": "avi",
}

export function fileExtension(type: string): string {
  return extensions[type] ?? type.split("/")[1]!
}

/** `image/*` accepts every image. */
export function isAccepted(type: string, accepted: readonly string[]): boolean {
  return accepted.some(each => each === type || (each.endsWith("/*") && type.startsWith(each.slice(0, -1))))
}
