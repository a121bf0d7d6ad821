import { UmbraError } from "../../errors.ts"
import { amount, type Setting, type SettingTable, settingNames, wholeNumber } from "../../settings.ts"
import { isLoopback } from "../http/loopback.ts"

/** Whose JWTs are taken, and how. Without an issuer, none. */
export interface JwtSettings {
  readonly jwtIssuer: string | null
  readonly jwtAudience: string | null
  readonly jwksUrl: string | null
  /** The claim that names the owner. */
  readonly jwtOwnerClaim: string
  readonly jwtAlgorithms: readonly string[]
  readonly jwtClockToleranceSeconds: number
  /** Keys are fetched again after this. */
  readonly jwksMaxAgeSeconds: number
  /** For a key that is not known they are fetched again, but not more often than this. */
  readonly jwksCooldownSeconds: number
  readonly jwksTimeoutSeconds: number
  readonly jwksMaxBytes: number
}

/** Signatures that only the issuer can make. HS* is none: whoever can check one can forge one. */
const asymmetric = [
  ...["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
  ...["ES256", "ES384", "ES512", "EdDSA", "Ed25519"],
]

const text = (key: string): Setting<string | null> => ({
  ...settingNames(key),
  default: null,
  // What a configuration file writes as null.
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

export const jwtTable: SettingTable<JwtSettings> = {
  jwtIssuer: text("UMBRA_JWT_ISSUER"),
  jwtAudience: text("UMBRA_JWT_AUDIENCE"),
  jwksUrl: keysUrl,
  jwtOwnerClaim: ownerClaim,
  jwtAlgorithms: algorithms,
  jwtClockToleranceSeconds: amount("jwt_clock_tolerance_seconds", 30),
  jwksMaxAgeSeconds: amount("jwks_max_age_seconds", 600),
  jwksCooldownSeconds: amount("jwks_cooldown_seconds", 30),
  jwksTimeoutSeconds: amount("jwks_timeout_seconds", 5),
  jwksMaxBytes: wholeNumber("jwks_max_bytes", 256 * 1024),
}

export interface JwtIssuer {
  readonly issuer: string
  readonly audience: string
  readonly keys: URL
}

/** null: no JWTs. A part alone is a mistake, and the missing part would be a hole: any service's token would do. */
export function jwtIssuerOf({ jwtIssuer, jwtAudience, jwksUrl }: JwtSettings): JwtIssuer | null {
  if (jwtIssuer === null && jwtAudience === null && jwksUrl === null) return null
  if (jwtIssuer !== null && jwtAudience !== null && jwksUrl !== null)
    return { issuer: jwtIssuer, audience: jwtAudience, keys: new URL(jwksUrl) }
  throw new UmbraError("E620", "JWTs need all of jwt_issuer, jwt_audience and jwks_url; a part is missing.")
}

function isKeysUrl(given: string): boolean {
  if (!URL.canParse(given)) return false
  const { protocol, hostname, username, password } = new URL(given)
  if (username !== "" || password !== "") return false
  return protocol === "https:" || (protocol === "http:" && isLoopback(hostname.replace(/^\[|\]$/g, "")))
}
