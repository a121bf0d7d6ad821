import { describe, expect, it } from "vitest"
import {
  encodeCommand,
  type Reply,
  ReplyError,
  ReplyParser,
} from "../../src/broker/redis/client/connection.ts"

import fc from "../support/property.ts"

const { reply } = fc.letrec<{ reply: Reply }>(tie => ({
  reply: fc.oneof(
    { maxDepth: 3 },
    fc.string({ unit: "binary" }),
    fc.string({ minLength: 1000, maxLength: 3000 }),
    fc.integer(),
    fc.constant(null),
    fc.array(tie("reply"), { maxLength: 4 }),
  ),
}))

function bytesOf(value: Reply): string {
  if (value === null) return "$-1\r\n"
  if (typeof value === "number") return `:${value}\r\n`
  if (typeof value === "string") return `$${Buffer.byteLength(value)}\r\n${value}\r\n`
  if (value instanceof ReplyError) return `-${value.message}\r\n`
  return `*${value.length}\r\n${value.map(bytesOf).join("")}`
}

function parsed(bytes: Buffer, cuts: readonly number[]): Reply[] {
  const found: Reply[] = []
  const parser = new ReplyParser(one => found.push(one))
  let from = 0
  for (const cut of [...cuts.map(n => n % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]) {
    if (cut > from) parser.push(bytes.subarray(from, cut))
    from = Math.max(from, cut)
  }
  return found
}

describe("the protocol of Redis", () => {
  it("replies come out as they went in, however they are cut", () => {
    fc.assert(
      fc.property(
        fc.array(reply, { maxLength: 6 }),
        fc.array(fc.nat(), { maxLength: 12 }),
        (replies, cuts) => {
          const bytes = Buffer.from(replies.map(bytesOf).join(""))
          expect(parsed(bytes, cuts)).toEqual(replies)
          expect(
            parsed(
              bytes,
              Array.from({ length: Math.min(bytes.length, 5000) }, (_, n) => n),
            ),
          ).toEqual(replies)
        },
      ),
      { numRuns: 200 },
    )
  })

  it("errors, plain lines and empty arrays", () => {
    const bytes = Buffer.from("-ERR no such thing\r\n+OK\r\n*0\r\n*-1\r\n")
    expect(parsed(bytes, [3, 9])).toEqual([new ReplyError("ERR no such thing"), "OK", [], null])
  })

  it("a text of 16 MB in small pieces is put together once, not with every piece", () => {
    const text = "x".repeat(16 * 1024 * 1024)
    const bytes = Buffer.from(bytesOf(text))
    const begun = process.cpuUsage()
    const found = parsed(
      bytes,
      Array.from({ length: bytes.length / 16_384 }, (_, n) => n * 16_384),
    )
    expect(found).toHaveLength(1)
    expect((found[0] as string).length).toBe(text.length)
    expect(process.cpuUsage(begun).user / 1000).toBeLessThan(1000)
  })

  it("lengths of commands are in bytes, not characters", () => {
    expect(encodeCommand(["SET", "é", ""])).toBe("*3\r\n$3\r\nSET\r\n$2\r\né\r\n$0\r\n\r\n")
  })
})
