import { describe, expect, it } from "vitest"
import { isRetryableStatus, retryAfterSeconds, toFault } from "../../src/core/faults.ts"
import { UmbraError } from "../../src/errors.ts"
import { HandlerError } from "../../src/worker/fail.ts"
import fc from "../support/property.ts"

const now = Date.UTC(2026, 10, 15, 12, 0, 0)
const fault = (thrown: unknown) => toFault(thrown, { now })
const error = (fields: object, message = "it broke") => Object.assign(new Error(message), fields)

describe("J13 the taxonomy of faults", () => {
  it.each([
    ["status 429", error({ status: 429 })],
    ["RATE_LIMITED beside a status of 400", error({ code: "RATE_LIMITED", status: 400 })],
    ["status 503", error({ statusCode: 503 })],
    ["axios' 500", error({ response: { status: 500 } })],
    ["status 408", error({ status: 408 })],
    ["ECONNRESET", error({ code: "ECONNRESET" })],
    ["ECONNREFUSED in the cause of fetch", error({ cause: error({ code: "ECONNREFUSED" }) }, "fetch failed")],
    ["ETIMEDOUT", error({ code: "ETIMEDOUT" })],
    ["EAI_AGAIN", error({ code: "EAI_AGAIN" })],
    ["a timeout of undici", error({ code: "UND_ERR_HEADERS_TIMEOUT" })],
    ["a timeout signal", new DOMException("too slow", "TimeoutError")],
    ["an unknown error", new Error("who knows")],
    ["a string", "who knows"],
    ["null", null],
    ["E402", new UmbraError("E402", "too slow")],
  ])("%s is tried again", (_, thrown) => {
    expect(fault(thrown).retryable).toBe(true)
  })

  it.each([
    ["status 400", error({ status: 400 })],
    ["status 404 of a cloud's client", error({ $metadata: { httpStatusCode: 404 } })],
    ["axios' 422", error({ response: { status: 422 } })],
    ["a validation error", error({ name: "ZodError", issues: [] })],
    ["an expired certificate", error({ code: "CERT_HAS_EXPIRED" })],
    ["a wrong argument", error({ code: "ERR_INVALID_ARG_TYPE" })],
    ["E403", new UmbraError("E403", "wrong config")],
    ["what the handler calls final", new HandlerError("declined", { retryable: false })],
  ])("%s is final", (_, thrown) => {
    expect(fault(thrown).retryable).toBe(false)
  })

  it("every other 4xx is final, every 5xx is not", () => {
    const retryable = Array.from({ length: 200 }, (_, i) => 400 + i).filter(isRetryableStatus)
    expect(retryable.filter(status => status < 500)).toEqual([408, 425, 429])
    expect(retryable.filter(status => status >= 500)).toHaveLength(100)
  })

  it("keeps the user's own code and details", () => {
    const thrown = new HandlerError("declined", { code: "CARD_DECLINED", details: { card: "x" } })
    expect(fault(thrown)).toEqual({
      code: "CARD_DECLINED",
      message: "declined",
      retryable: true,
      details: { card: "x" },
    })
  })

  it("does not repeat a cause that the message has in it", () => {
    const inner = error({ code: "ENOTFOUND" }, "getaddrinfo ENOTFOUND api.example.com")
    const outer = error({ cause: inner }, `cannot be reached: ${inner.message}`)
    expect(fault(outer).message).toBe(outer.message)
  })

  it("includes the message of a cause, and stores no stack", () => {
    const { message, details } = fault(error({ cause: error({ status: 500 }, "inner") }, "outer"))
    expect(message).toBe("outer: inner")
    expect(details).toEqual({ status: 500 })
    expect(JSON.stringify(fault(new Error("x")))).not.toContain("faults.test")
  })

  it.each([
    ["a string", "boom", "boom"],
    ["null", null, "The handler threw null."],
    ["undefined", undefined, "The handler threw undefined."],
    ["a number", 42, "The handler threw the number 42."],
    ["a symbol", Symbol("s"), "The handler threw the symbol Symbol(s)."],
    ["an object", { a: 1 }, 'The handler threw an object: {"a":1}'],
    ["an error without message", new TypeError(), "The handler threw TypeError without a message."],
  ])("%s can be thrown", (_, thrown, message) => {
    expect(fault(thrown)).toMatchObject({ code: "E401", message })
  })

  it("says what threw it, where that is no handler", () => {
    const messageOf = (thrown: unknown) => toFault(thrown, { now: 0, thrower: "adapter" }).message
    expect(messageOf(undefined)).toBe("The adapter threw undefined.")
    expect(messageOf("")).toBe("The adapter threw an empty string.")
    expect(messageOf(new TypeError())).toBe("The adapter threw TypeError without a message.")
  })

  it("survives getters that throw, rings of causes and hostile proxies", () => {
    const ring: { message: string; cause?: unknown } = { message: "ring" }
    ring.cause = ring
    const proxy = new Proxy(
      {},
      {
        get: () => {
          throw new Error("no")
        },
        ownKeys: () => {
          throw new Error("no")
        },
      },
    )
    expect(fault(ring).message).toBe("ring")
    expect(fault(proxy).code).toBe("E401")
    expect(fault({ details: ring })).not.toHaveProperty("details")
  })

  it("is total and bounded for any value", () => {
    fc.assert(
      fc.property(fc.anything({ withBigInt: true, withMap: true, withNullPrototype: true }), value => {
        const text = JSON.stringify(fault(value))
        expect(text.length).toBeLessThan(30_000)
      }),
    )
  })

  it("bounds message and details", () => {
    const { message, details } = fault(error({ details: { text: "y".repeat(50_000) } }, "x".repeat(50_000)))
    expect(message).toHaveLength(2_000)
    expect(details).toMatchObject({ truncated: true })
    expect(JSON.stringify(details).length).toBeLessThan(17_000)
  })

  it("cleans a text before it cuts it", () => {
    const clean = (text: string) => text.replaceAll("hunter22", "[secret]")
    const { message } = toFault(`${"x".repeat(1_995)}hunter22`, { now, clean })
    expect(message).not.toContain("hunt")
  })
})

describe("Retry-After", () => {
  it.each([
    ["120", 120],
    [" 1.5 ", 1.5],
    [30, 30],
    ["Sun, 15 Nov 2026 12:01:00 GMT", 60],
    ["Sun, 15 Nov 2026 11:00:00 GMT", 0],
    ["99999999999999", 31_536_000],
    ["soon", undefined],
    ["-5", undefined],
    [undefined, undefined],
  ])("%s → %s s", (value, seconds) => {
    expect(retryAfterSeconds(value, now)).toBe(seconds)
  })

  it("reads any HTTP date as the calendar does", () => {
    const dates = fc.date({ min: new Date("1970-01-01"), max: new Date("2199-12-31"), noInvalidDate: true })
    fc.assert(
      fc.property(dates, date => {
        const start = Math.floor(date.getTime() / 1000) * 1000 - 5_000
        expect(retryAfterSeconds(date.toUTCString(), start)).toBe(5)
      }),
    )
  })

  it("is found on the error, its headers and its response's headers", () => {
    expect(fault(new HandlerError("x", { retryAfterSeconds: 7 })).retry_after_seconds).toBe(7)
    expect(fault(error({ headers: { "retry-after": "8" } })).retry_after_seconds).toBe(8)
    expect(
      fault(error({ response: { headers: new Headers({ "retry-after": "9" }) } })).retry_after_seconds,
    ).toBe(9)
  })
})

describe("Retry-After", () => {
  it("is rounded up to a millisecond: a request is never sent too early", () => {
    expect(retryAfterSeconds(0.0001, now)).toBe(0.001)
    expect(retryAfterSeconds("1.0004", now)).toBe(1.001)
    expect(retryAfterSeconds(2, now)).toBe(2)
  })

  it("is a year at most, and never negative", () => {
    expect(retryAfterSeconds(1e12, now)).toBe(31_536_000)
    expect(retryAfterSeconds(-5, now)).toBe(0)
  })
})

describe("codes of a network that fails for a while", () => {
  it.each([
    ...["ABORT_ERR", "EAI_AGAIN", "ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "EHOSTDOWN", "EHOSTUNREACH"],
    ...["ENETDOWN", "ENETRESET", "ENETUNREACH", "ENOTFOUND", "EPIPE", "ESOCKETTIMEDOUT", "ETIMEDOUT"],
    ...["UND_ERR_BODY_TIMEOUT", "UND_ERR_CLOSED", "UND_ERR_CONNECT_TIMEOUT", "UND_ERR_DESTROYED"],
    ...["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_SOCKET", "RATE_LIMITED"],
  ])("%s is tried again, also beside a status that is final", code => {
    expect(fault(error({ code, status: 400 })).retryable).toBe(true)
  })

  it.each([
    ...["ERR_INVALID_ARG_TYPE", "UND_ERR_INVALID_ARG", "CERT_HAS_EXPIRED", "DEPTH_ZERO_SELF_SIGNED_CERT"],
    ...["UNABLE_TO_VERIFY_LEAF_SIGNATURE", "ERR_TLS_CERT_ALTNAME_INVALID"],
  ])("%s is final", code => {
    expect(fault(error({ code })).retryable).toBe(false)
  })
})
