import { describe, expect, it } from "vitest"
import { detectMediaType, fileExtension, isAccepted } from "../../src/worker/media-type.ts"

const bytes = (text: string): Buffer => Buffer.from(text, "latin1")

describe("the type of content, by its bytes", () => {
  it.each([
    ["image/png", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR"],
    ["image/jpeg", "\xff\xd8\xff\xe0\0\x10JFIF"],
    ["image/gif", "GIF89a\x01\0"],
    ["image/webp", "RIFF\x24\0\0\0WEBPVP8 "],
    ["image/avif", "\0\0\0\x20ftypavif\0\0\0\0"],
    ["image/heic", "\0\0\0\x20ftypheic\0\0\0\0"],
    ["image/bmp", "BM\x46\0\0\0\0\0\0\0\x36"],
    ["image/tiff", "II*\0\x08\0\0\0"],
    [
      "image/svg+xml",
      '<?xml version="1.0"?>\n<!-- made by hand -->\n<svg xmlns="http://www.w3.org/2000/svg">',
    ],
    ["image/svg+xml", '\xef\xbb\xbf<svg width="1">'],
    ["video/mp4", "\0\0\0\x20ftypisom\0\0\x02\0"],
    ["video/quicktime", "\0\0\0\x14ftypqt  \0\0\0\0"],
    ["video/webm", "\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x84webm"],
    ["video/matroska", "\x1a\x45\xdf\xa3\xa3\x42\x82\x88matroska"],
    ["video/x-msvideo", "RIFF\x24\0\0\0AVI LIST"],
    ["audio/wav", "RIFF\x24\0\0\0WAVEfmt "],
    ["audio/mpeg", "ID3\x04\0\0"],
    ["audio/mpeg", "\xff\xfb\x90\x64\0\0"],
    ["audio/aac", "\xff\xf1\x50\x80"],
    ["audio/mp4", "\0\0\0\x20ftypM4A \0\0\0\0"],
    ["audio/ogg", "OggS\0\x02\0\0\0\0\0\0\0\0OpusHead"],
    ["audio/flac", "fLaC\0\0\0\x22"],
    ["application/pdf", "%PDF-1.7"],
    ["application/zip", "PK\x03\x04\x14\0"],
  ])("%s", (type, head) => {
    expect(detectMediaType(bytes(head))).toBe(type)
  })

  it.each([
    "",
    "GIF8",
    "hello",
    "<!DOCTYPE html><html><svg></svg>",
    "\xff",
    "\xff\xff\xff\xff",
    "RIFF",
    "\0\0\0\0",
  ])("none is known for %j", head => {
    expect(detectMediaType(bytes(head))).toBeUndefined()
  })

  it("is accepted by its name or by its kind", () => {
    expect(isAccepted("image/png", ["video/*", "image/*"])).toBe(true)
    expect(isAccepted("image/png", ["image/png"])).toBe(true)
    expect(isAccepted("image/png", ["image/jpeg", "video/*"])).toBe(false)
    expect([fileExtension("image/jpeg"), fileExtension("image/png"), fileExtension("audio/mpeg")]).toEqual([
      ...["jpg", "png", "mp3"],
    ])
  })
})
