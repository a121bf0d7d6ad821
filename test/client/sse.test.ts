import { describe, expect, it } from "vitest"
import { type SseMessage, SseParser } from "../../src/client/sse.ts"
import fc from "../support/property.ts"

const bytesOf = (text: string) => new TextEncoder().encode(text)

function parse(pieces: readonly Uint8Array[]): { messages: SseMessage[]; parser: SseParser } {
  const parser = new SseParser()
  return { messages: pieces.flatMap(piece => parser.push(piece)), parser }
}

const parseText = (text: string) => parse([bytesOf(text)]).messages

describe("server-sent events", () => {
  it("have a name, an id and data; comments and unknown fields are passed over", () => {
    expect(parseText(": hi\n\nevent: job\nid: 7\nfoo: bar\ndata: {}\n\n")).toEqual([
      { event: "job", data: "{}", lastEventId: "7" },
    ])
  })

  it("join several lines of data, and take off one space only", () => {
    expect(parseText("data:a\ndata:  b\ndata\ndata: \n\n")[0]?.data).toBe("a\n b\n\n")
  })

  it("end lines with CR, LF or CRLF, mixed", () => {
    expect(parseText("data: 1\r\rdata: 2\n\ndata: 3\r\n\r\ndata: 4\r\ndata: 5\n\r").map(m => m.data)).toEqual(
      ["1", "2", "3", "4\n5"],
    )
  })

  it("may begin with a byte order mark, which is not a part of the first field", () => {
    expect(parseText("\ufeffdata: x\n\n")[0]?.data).toBe("x")
  })

  it("keep the last id for events without one, and refuse an id with U+0000", () => {
    const ids = parseText("id: 1\ndata: a\n\ndata: b\n\nid: 2\u00003\ndata: c\n\nid\ndata: d\n\n")
    expect(ids.map(m => m.lastEventId)).toEqual(["1", "1", "1", ""])
  })

  it("set the time to wait only from digits", () => {
    expect(parse([bytesOf("retry: 1500\n\nretry: soon\n\n")]).parser.retryMs).toBe(1500)
  })

  it("that the end cuts off are none", () => {
    expect(parseText("data: whole\n\ndata: half\n")).toHaveLength(1)
  })

  it("without data are none, but their id is a place to continue from", () => {
    const { messages, parser } = parse([bytesOf("event: x\nid: 9\n\n")])
    expect(messages).toEqual([])
    expect(parser.lastEventId).toBe("9")
  })

  const field = fc.oneof(
    fc.tuple(
      fc.constantFrom("data", "event", "id", "retry", "", "other"),
      fc.constantFrom(":", ": ", ""),
      fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("é", "😀", "日本", "12", "\ufeff", "{}")),
    ),
    fc.constant(["", "", ""] as const),
  )
  const line = fc.tuple(field, fc.constantFrom("\n", "\r", "\r\n"))
  const stream = fc
    .tuple(fc.constantFrom("", "\ufeff"), fc.array(line, { maxLength: 30 }))
    .map(
      ([mark, lines]) =>
        mark + lines.map(([[name, colon, value], end]) => `${name}${colon}${value}${end}`).join(""),
    )

  it("are the same wherever the bytes are cut", () => {
    fc.assert(
      fc.property(stream, fc.array(fc.nat(), { maxLength: 40 }), (text, cuts) => {
        const bytes = bytesOf(text)
        const places = [...new Set(cuts.map(cut => cut % (bytes.length + 1)))].sort((a, b) => a - b)
        const pieces = [0, ...places].map((from, i) => bytes.subarray(from, places[i] ?? bytes.length))
        const [whole, cut] = [parse([bytes]), parse(pieces)]
        expect(cut.messages).toEqual(whole.messages)
        expect([cut.parser.retryMs, cut.parser.lastEventId]).toEqual([
          whole.parser.retryMs,
          whole.parser.lastEventId,
        ])
      }),
      { numRuns: 500 },
    )
  })

  it("are the same byte by byte", () => {
    fc.assert(
      fc.property(stream, text => {
        const bytes = bytesOf(text)
        const single = Array.from(bytes, byte => Uint8Array.of(byte))
        expect(parse(single).messages).toEqual(parse([bytes]).messages)
      }),
    )
  })
})
