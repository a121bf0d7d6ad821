import { createHmac, generateKeyPairSync, sign } from "node:crypto"
import { describe, expect, it } from "vitest"
import { type Signature, TOO_OLD, verifySignature } from "../../src/provider/signature.ts"
import fc from "../support/property.ts"

const now = 1_800_000_000_000
const seconds = now / 1000
const secrets: Record<string, string> = {
  OLD: "old-secret-value",
  NEW: "new-secret-value",
  STD: "whsec_c2VjcmV0LWJ5dGVz",
  NO_BASE64: "whsec_%%%%%%%%",
}
const options = { secret: (name: string) => secrets[name] ?? null, now, toleranceSeconds: 300 }
const body = Buffer.from('{"id":"op-1"}')

const check = (signature: Signature, headers: Record<string, string>, given = body) =>
  verifySignature(signature, { body: given, headers }, options)
const hmac = (secret: string, text: string | Buffer) => createHmac("sha256", secret).update(text)

describe("HMAC-SHA256", () => {
  const scheme = {
    scheme: "hmac-sha256",
    header: "X-Signature",
    prefix: "sha256=",
    secrets: ["NEW", "OLD"],
  } as const

  it("X2 lets in what any of its secrets has signed, in every encoding", async () => {
    for (const encoding of ["hex", "base64", "base64url"] as const)
      for (const name of ["OLD", "NEW"]) {
        const signature = `sha256=${hmac(secrets[name]!, body).digest(encoding)}`
        expect(await check({ ...scheme, encoding }, { "x-signature": signature })).toBeNull()
      }
  })

  it("X2 lets in what one secret has signed although another is not set, and nothing when none is", async () => {
    const right = { "x-signature": `sha256=${hmac(secrets.NEW!, body).digest("hex")}` }
    expect(await check({ ...scheme, secrets: ["NEXT", "NEW"] }, right)).toBeNull()
    expect(await check({ ...scheme, secrets: ["NEXT"] }, right)).toMatch(/signature is wrong/)
    const empty = { "x-signature": `sha256=${hmac("", body).digest("hex")}` }
    expect(await check({ ...scheme, secrets: ["NEXT"] }, empty)).toMatch(/signature is wrong/)
  })

  it("X2 refuses another body, another secret, half a signature, another prefix, none", async () => {
    const right = hmac(secrets.NEW!, body).digest("hex")
    expect(await check(scheme, { "x-signature": `sha256=${right}` }, Buffer.from("{}"))).not.toBeNull()
    for (const header of [
      `sha256=${hmac("forged", body).digest("hex")}`,
      `sha256=${right.slice(0, 32)}`,
      `sha256=${right}00`,
      `sha512=${right}`,
      right,
      "sha256=",
      "",
    ])
      expect(await check(scheme, { "x-signature": header }), header).not.toBeNull()
    expect(await check(scheme, {})).toMatch(/no signature/)
  })

  it("X2 signs a time along, and refuses one that is far away", async () => {
    const timed = { ...scheme, timestampHeader: "x-time" }
    const at = (time: number) => {
      const signature = `sha256=${hmac(secrets.NEW!, Buffer.concat([Buffer.from(`${time}.`), body])).digest("hex")}`
      return check(timed, { "x-signature": signature, "x-time": String(time) })
    }
    expect(await at(seconds)).toBeNull()
    expect(await at(seconds - 300)).toBeNull()
    expect(await at(seconds - 301)).toBe(TOO_OLD)
    expect(await at(seconds + 301)).toBe(TOO_OLD)
    // Only content that is genuine is a replay.
    const forged = { "x-signature": `sha256=${"0".repeat(64)}`, "x-time": String(seconds - 301) }
    expect(await check(timed, forged)).toBe("the signature is wrong")
    const signature = `sha256=${hmac(secrets.NEW!, body).digest("hex")}`
    expect(await check(timed, { "x-signature": signature, "x-time": String(seconds) })).not.toBeNull()
    expect(await check(timed, { "x-signature": signature })).toMatch(/no signed time/)
  })

  it("X2 never lets in random bytes, whatever header they come in", async () => {
    await fc.assert(
      fc.asyncProperty(fc.string(), fc.uint8Array(), async (header, bytes) => {
        expect(await check(scheme, { "x-signature": header }, Buffer.from(bytes))).not.toBeNull()
      }),
      { numRuns: 500 },
    )
  })
})

describe("Standard Webhooks", () => {
  const scheme = { scheme: "standard-webhooks", secrets: ["STD"] } as const
  const key = Buffer.from("secret-bytes")
  const headers = (time = seconds, id = "msg_1") => ({
    "webhook-id": id,
    "webhook-timestamp": String(time),
    "webhook-signature": `v1a,AAAA v1,${createHmac("sha256", key).update(`${id}.${time}.`).update(body).digest("base64")}`,
  })

  it("X2 lets in what the scheme's own example would, and refuses a replay", async () => {
    expect(await check(scheme, headers())).toBeNull()
    expect(await check(scheme, headers(seconds - 1000))).toBe(TOO_OLD)
    expect(await check(scheme, { ...headers(), "webhook-id": "msg_2" })).not.toBeNull()
    const forged = { ...headers(seconds - 1000), "webhook-id": "msg_2" }
    expect(await check(scheme, forged)).toBe("the signature is wrong")
    const { "webhook-id": _, ...without } = headers()
    expect(await check(scheme, without)).toMatch(/webhook-id/)
    expect(await check(scheme, { ...headers(), "webhook-signature": "v2,AAAA" })).toMatch(/no v1/)
  })

  it("X2 accepts no request signed with the empty key of a secret that is no base64", async () => {
    const { "webhook-signature": _, ...rest } = headers()
    const signed = createHmac("sha256", "").update(`msg_1.${seconds}.`).update(body).digest("base64")
    const forged = { ...rest, "webhook-signature": `v1,${signed}` }
    expect(await check({ ...scheme, secrets: ["NO_BASE64"] }, forged)).toBe("the signature is wrong")
  })
})

describe("ed25519", () => {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519")
  const raw = publicKey.export({ format: "der", type: "spki" }).subarray(12)
  const keys = {
    PEM: publicKey.export({ format: "pem", type: "spki" }) as string,
    hex: raw.toString("hex"),
    base64: raw.toString("base64"),
  }

  it.each(Object.entries(keys))("X2 verifies with a key as %s", async (_, key) => {
    const scheme = { scheme: "ed25519", header: "x-sig", publicKeys: [key] } as const
    const signature = sign(null, body, privateKey).toString("hex")
    expect(await check(scheme, { "x-sig": signature })).toBeNull()
    expect(await check(scheme, { "x-sig": signature }, Buffer.from("{}"))).not.toBeNull()
    expect(await check(scheme, { "x-sig": signature.slice(2) })).toMatch(/64 bytes/)
    expect(await check(scheme, {})).toMatch(/64 bytes/)
  })

  it("X2 signs a time along", async () => {
    const timed = {
      scheme: "ed25519",
      header: "x-sig",
      timestampHeader: "x-time",
      separator: "",
      publicKeys: [keys.hex],
    } as const
    const signature = sign(null, Buffer.concat([Buffer.from(`${seconds}`), body]), privateKey).toString("hex")
    expect(await check(timed, { "x-sig": signature, "x-time": `${seconds}` })).toBeNull()
    const old = sign(null, Buffer.concat([Buffer.from(`${seconds - 5000}`), body]), privateKey).toString(
      "hex",
    )
    expect(await check(timed, { "x-sig": old, "x-time": `${seconds - 5000}` })).toBe(TOO_OLD)
    expect(await check(timed, { "x-sig": signature, "x-time": `${seconds - 5000}` })).toBe(
      "the signature is wrong",
    )
  })
})

describe("a check of one's own", () => {
  it("refuses unless it says true, and when it throws", async () => {
    expect(await check(() => true, {})).toBeNull()
    expect(await check(async () => false, {})).not.toBeNull()
    expect(await check(() => 1 as never, {})).not.toBeNull()
    const thrown = () => {
      throw new Error("no such key")
    }
    expect(await check(thrown, {})).toBe("the signature could not be checked")
  })
})
