// The part of PNG that this example needs: three colours of 8 bits, rows without a filter.
import { deflateSync, inflateSync } from "node:zlib"

const HEAD = Buffer.from("\x89PNG\r\n\x1a\n", "latin1")

export function encodePng({ width, height, pixels }) {
  const size = Buffer.alloc(13)
  size.writeUInt32BE(width, 0)
  size.writeUInt32BE(height, 4)
  size.set([8, 2, 0, 0, 0], 8)
  const rows = Array.from({ length: height }, (_, y) => [
    Buffer.from([0]),
    pixels.subarray(3 * y * width, 3 * (y + 1) * width),
  ])
  const data = deflateSync(Buffer.concat(rows.flat()))
  return Buffer.concat([HEAD, chunk("IHDR", size), chunk("IDAT", data), chunk("IEND", Buffer.alloc(0))])
}

export function decodePng(png) {
  const width = png.readUInt32BE(16)
  const height = png.readUInt32BE(20)
  const rows = inflateSync(dataIn(png))
  const pixels = Buffer.alloc(3 * width * height)
  for (let y = 0; y < height; y++) {
    const start = y * (3 * width + 1) + 1
    pixels.set(rows.subarray(start, start + 3 * width), 3 * y * width)
  }
  return { width, height, pixels }
}

function dataIn(png) {
  const parts = []
  for (let at = HEAD.length; at < png.length; at += 12 + png.readUInt32BE(at))
    if (png.toString("latin1", at + 4, at + 8) === "IDAT")
      parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)))
  return Buffer.concat(parts)
}

function chunk(name, data) {
  const body = Buffer.concat([Buffer.from(name, "latin1"), data])
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  sum.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, sum])
}

const table = Array.from({ length: 256 }, (_, byte) => {
  let sum = byte
  for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1
  return sum
})

/** Node.js has one since 22.2. */
function crc32(bytes) {
  let sum = 0xffffffff
  for (const byte of bytes) sum = table[(sum ^ byte) & 0xff] ^ (sum >>> 8)
  return (sum ^ 0xffffffff) >>> 0
}
