/** Recorded: JWTs that must open nothing. */
import { createHmac } from "node:crypto"
import { exportJWK, exportSPKI, generateKeyPair, importJWK } from "jose"
import { type Key, newKey, tokenOf, type Wanted } from "../issuer.ts"

const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url")

/** Signed with whatever somebody who is not the issuer has: nothing, or what the issuer publishes. */
async function unsigned(key: Key, header: object, wanted: Wanted = {}): Promise<string> {
  const [, payload] = (await tokenOf(key, wanted)).split(".")
  return `${base64(header)}.${payload}.`
}

async function withPublicKey(key: Key, secret: string, alg = "HS256"): Promise<string> {
  const start = (await unsigned(key, { alg, typ: "JWT", kid: key.kid })).slice(0, -1)
  const hash = `sha${alg.slice(2)}`
  return `${start}.${createHmac(hash, secret).update(start).digest("base64url")}`
}

async function pem(key: Key): Promise<string> {
  return exportSPKI((await importJWK(key.jwk, "ES256")) as Parameters<typeof exportSPKI>[0])
}

/** `trap`: an address that nobody may ask. */
export async function forged(key: Key, trap: string): Promise<Record<string, string>> {
  const good = await tokenOf(key, { claims: { scope: "admin" } })
  const [header, payload, signature] = good.split(".") as [string, string, string]
  const impostor = await newKey(key.kid)
  const stranger = await newKey("nobody-knows")
  const claims = (given: Wanted["claims"]) => tokenOf(key, { claims: { scope: "admin", ...given } })
  const headed = (given: object) => tokenOf(key, { header: { ...given } })
  const now = Math.floor(Date.now() / 1000)
  const altered = base64({ ...JSON.parse(Buffer.from(payload, "base64url").toString()), sub: "target" })
  const { publicKey } = await generateKeyPair("ES256", { extractable: true })
  return {
    expired: await tokenOf(key, { expires: -60 }),
    "expired long ago": await tokenOf(key, { expires: -1e9 }),
    "not valid yet": await claims({ nbf: now + 600 }),
    "without an end": await tokenOf(key, { expires: null }),
    "an end that is a text": await claims({ exp: "9999999999" as never }),
    "an end that is a list": await claims({ exp: [9999999999] as never }),
    "another issuer": await claims({ iss: "https://evil.example.com/" }),
    "an issuer that begins the same": await claims({ iss: "https://issuer.example.com/.evil.example.com" }),
    "no issuer": await claims({ iss: undefined as never }),
    "another audience": await claims({ aud: "billing" }),
    "no audience": await claims({ aud: undefined as never }),
    "other audiences": await claims({ aud: ["billing", "umbra2"] }),
    "no subject": await claims({ sub: undefined as never }),
    "a subject that is an object": await claims({ sub: { toString: "ada" } as never }),
    "a subject with NUL": await claims({ sub: "ada\u0000" }),
    "alg none": await unsigned(key, { alg: "none" }),
    "alg None": await unsigned(key, { alg: "None", kid: key.kid }),
    "alg none with a signature": `${await unsigned(key, { alg: "none" })}${signature}`,
    "no alg": await unsigned(key, { kid: key.kid }),
    "alg null": await unsigned(key, { alg: null, kid: key.kid }),
    "HS256 with the public key as PEM": await withPublicKey(key, await pem(key)),
    "HS256 with the public key as JSON": await withPublicKey(key, JSON.stringify(key.jwk)),
    "HS512 with the public key's x": await withPublicKey(key, key.jwk.x!, "HS512"),
    "HS256 with nothing": await withPublicKey(key, ""),
    "another algorithm than the key's": `${base64({ alg: "RS256", kid: key.kid })}.${payload}.${signature}`,
    "a key with the right name": await tokenOf(impostor),
    "an unknown key": await tokenOf(stranger),
    "a key that it brings along": await tokenOf(stranger, { header: { kid: key.kid, jwk: stranger.jwk } }),
    "a key from an address": await tokenOf(stranger, { header: { jku: trap, x5u: trap } }),
    "a key that is a path": await tokenOf(stranger, { header: { kid: "../../../../dev/null" } }),
    "a key that is SQL": await tokenOf(stranger, { header: { kid: "x' union select 'k" } }),
    "a key that is an address": await tokenOf(stranger, { header: { kid: trap } }),
    "no signature": `${header}.${payload}.`,
    "half a signature": `${header}.${payload}.${signature.slice(0, 20)}`,
    "a signature of zeros": `${header}.${payload}.${Buffer.alloc(64).toString("base64url")}`,
    "another's signature": `${header}.${payload}.${(await tokenOf(impostor)).split(".")[2]}`,
    "an altered payload": `${header}.${altered}.${signature}`,
    "a payload that is no JSON": `${header}.${Buffer.from("{").toString("base64url")}.${signature}`,
    "a payload that is a list": `${header}.${base64([1])}.${signature}`,
    "a header that is no JSON": `${Buffer.from("{").toString("base64url")}.${payload}.${signature}`,
    "a header of __proto__": `${Buffer.from('{"__proto__":{"alg":"none"}}').toString("base64url")}.${payload}.`,
    "an extension that must be understood": await headed({ crit: ["exp"], exp: 1 }).catch(() => "a.b.c"),
    "an unencoded payload": `${base64({ alg: "ES256", kid: key.kid, b64: false, crit: ["b64"] })}.${payload}.${signature}`,
    "five parts": `${base64({ alg: "dir", enc: "A256GCM" })}..${payload}.${payload}.${signature}`,
    "five parts for a key of ours": `${base64({ alg: "ECDH-ES", enc: "A256GCM", epk: await exportJWK(publicKey) })}..${payload}.${payload}.${signature}`,
    "two dots": "..",
    letters: "a.b.c",
    "too large": await claims({ blob: "x".repeat(9000) }),
  }
}
