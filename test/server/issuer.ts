/** An issuer of JWTs for tests: keys that rotate, and an address where they are published, or not. */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose"
import type { ServerSettings } from "../../src/server/settings.ts"

const issuerName = "https://issuer.example.com/"
const audience = "umbra"

export interface Key {
  readonly kid: string
  readonly jwk: JWK
  readonly privateKey: Awaited<ReturnType<typeof generateKeyPair>>["privateKey"]
}

export interface Issuer {
  readonly settings: Partial<ServerSettings>
  /** How often the keys were asked for. */
  asked(): number
  publish(...keys: readonly Key[]): void
  /** What is answered instead of the keys. */
  answer(status: number, body: string): void
  close(): Promise<void>
}

export async function newKey(kid: string, alg = "ES256"): Promise<Key> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true })
  return { kid, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: "sig" } }
}

export interface Wanted {
  readonly claims?: JWTPayload
  readonly header?: Readonly<Record<string, unknown>>
  /** Seconds from now; null: none. */
  readonly expires?: number | null
}

/** Good unless told otherwise. */
export function tokenOf(key: Key, { claims = {}, header = {}, expires = 600 }: Wanted = {}): Promise<string> {
  const now = Math.floor(Date.now() / 1000)
  const payload = { iss: issuerName, aud: audience, sub: "ada", scope: "read submit", iat: now, ...claims }
  const jwt = new SignJWT(expires === null ? payload : { exp: now + expires, ...payload })
  return jwt.setProtectedHeader({ alg: key.jwk.alg!, kid: key.kid, ...header }).sign(key.privateKey)
}

export async function openIssuer(): Promise<Issuer> {
  let asked = 0
  let answer = { status: 200, body: '{"keys":[]}' }
  const server = createServer((_, response) => {
    asked++
    response.writeHead(answer.status, { "content-type": "application/json" }).end(answer.body)
  }).listen(0, "127.0.0.1")
  await new Promise(resolve => server.once("listening", resolve))
  const { port } = server.address() as AddressInfo
  return {
    settings: {
      jwtIssuer: issuerName,
      jwtAudience: audience,
      jwksUrl: `http://127.0.0.1:${port}/keys`,
      jwtClockToleranceSeconds: 5,
    },
    asked: () => asked,
    publish: (...keys) => {
      answer = { status: 200, body: JSON.stringify({ keys: keys.map(({ jwk }) => jwk) }) }
    },
    answer: (status, body) => {
      answer = { status, body }
    },
    async close() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
