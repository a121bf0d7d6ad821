import { UmbraError } from "../../errors.ts"
import { amount, type Setting, type SettingsOf, settingNames, wholeNumber } from "../../settings.ts"
import { isLoopback } from "../http/limits.ts"

/** Only the issuer can create these signatures. HS* is excluded: every verifier could forge one. */
const asymmetric = [
  ...["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
  ...["ES256", "ES384", "ES512", "EdDSA", "Ed25519"],
]

const text = (key: string): Setting<string | null> => ({
  ...settingNames(key),
  default: null,
  // A configuration file may write null.
  read: given => (given === "never" ? null : given),
  wrong: value => (value === "" ? "a text" : undefined),
})

const keysUrl: Setting<string | null> = {
  ...text("UMBRA_JWKS_URL"),
  wrong: value => (value === null || isKeysUrl(value) ? undefined : "an https URL (http only on loopback)"),
}

const ownerClaim: Setting<string> = {
  ...settingNames("UMBRA_JWT_OWNER_CLAIM"),
  default: "sub",
  read: given => given,
  wrong: value => (value === "" ? "the name of a claim" : undefined),
}

const algorithms: Setting<readonly string[]> = {
  ...settingNames("UMBRA_JWT_ALGORITHMS"),
  default: ["RS256", "PS256", "ES256", "EdDSA", "Ed25519"],
  read: given => given.split(",").map(name => name.trim()),
  wrong: value =>
    value.length > 0 && value.every(name => asymmetric.includes(name))
      ? undefined
      : `one or several of ${asymmetric.join(", ")}`,
}

export const jwtTable = {
  jwtIssuer: text("UMBRA_JWT_ISSUER"),
  jwtAudience: text("UMBRA_JWT_AUDIENCE"),
  jwksUrl: keysUrl,
  /** The claim that names the owner. */
  jwtOwnerClaim: ownerClaim,
  jwtAlgorithms: algorithms,
  jwtClockToleranceSeconds: amount("jwt_clock_tolerance_seconds", 30),
  /** Keys are fetched again after this time. */
  jwksMaxAgeSeconds: amount("jwks_max_age_seconds", 600),
  /** An unknown key triggers a fetch, but not more often than this. */
  jwksCooldownSeconds: amount("jwks_cooldown_seconds", 30),
  jwksTimeoutSeconds: amount("jwks_timeout_seconds", 5),
  jwksMaxBytes: wholeNumber("jwks_max_bytes", 256 * 1024),
}

/** Which JWTs are accepted. Without an issuer, none. */
export type JwtSettings = SettingsOf<typeof jwtTable>

export interface JwtIssuer {
  readonly issuer: string
  readonly audience: string
  readonly keys: URL
}

/**
 * null: JWTs are off. All three settings are needed: without the audience, for example, a token that the issuer made for
 * any other service would be accepted.
 */
export function readJwtIssuer({ jwtIssuer, jwtAudience, jwksUrl }: JwtSettings): JwtIssuer | null {
  if (jwtIssuer === null && jwtAudience === null && jwksUrl === null) return null
  if (jwtIssuer !== null && jwtAudience !== null && jwksUrl !== null)
    return { issuer: jwtIssuer, audience: jwtAudience, keys: new URL(jwksUrl) }
  throw new UmbraError(
    "E620",
    "JWTs need all three settings: jwt_issuer, jwt_audience and jwks_url. At least one is missing.",
  )
}

function isKeysUrl(given: string): boolean {
  if (!URL.canParse(given)) return false
  const { protocol, hostname, username, password } = new URL(given)
  if (username !== "" || password !== "") return false
  return protocol === "https:" || (protocol === "http:" && isLoopback(hostname.replace(/^\[|\]$/g, "")))
}

/** Three parts, or the five of an encrypted JWT. */
export function looksLikeJwt(token: string): boolean {
  return /^[\w-]+(\.[\w-]*){2}((\.[\w-]*){2})?$/.test(token)
}
