/**
 * Removes secrets from everything an attempt reports, also where they were written in a common encoding. A
 * handler that leaks a secret on purpose can do so (reversed, letter by letter): it is trusted code. This
 * prevents accidents: an error message, a service that echoes, a log line.
 */
import { cleaned } from "../core/faults.ts"
import type { Json } from "../core/json.ts"

export interface Secret {
  readonly name: string
  readonly value: string
}

/** Shorter texts occur in ordinary words; replacing them would garble every output. */
export const shortestSecret = 4
/** Only longer parts of a secret reveal it. */
const shortestPart = 8

export class Redactor {
  readonly secrets: readonly Secret[]
  readonly clean: (text: string) => string
  /**
   * Of a secret that is a URL also the host, which errors of connections name. Not in outputs: they may name the host for
   * another reason, and would be changed.
   */
  readonly cleanError: (text: string) => string

  constructor(secrets: readonly Secret[]) {
    this.secrets = secrets
    this.clean = replacement(secrets, writings)
    this.cleanError = replacement(secrets, value => [...writings(value), ...hostForms(value)])
  }

  value(value: Json): Json {
    return cleaned(value, this.clean)
  }
}

function replacement(secrets: readonly Secret[], forms: (value: string) => Iterable<string>) {
  const names = new Map<string, string>()
  const hexes = new Set<string>()
  for (const { name, value } of secrets) {
    for (const text of forms(value)) if (!names.has(text)) names.set(text, name)
    for (const text of hexForms(value)) {
      if (!names.has(text)) names.set(text, name)
      hexes.add(text)
    }
  }
  // The longest first: an alternation uses the first match.
  const texts = [...names.keys()].sort((a, b) => b.length - a.length)
  const patterns = texts.map(text => (hexes.has(text) ? inAnyCase(text) : escaped(text)))
  const pattern = patterns.length === 0 ? /(?!)/g : new RegExp(patterns.join("|"), "g")
  const secretName = (found: string) => names.get(found) ?? names.get(found.toLowerCase())
  return (text: string): string => text.replace(pattern, found => `[secret ${secretName(found)}]`)
}

const escaped = (text: string) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")

/** `text`: lower-case hexadecimal digits. */
const inAnyCase = (text: string) => text.replace(/[a-f]/g, digit => `[${digit}${digit.toUpperCase()}]`)

function hostForms(secret: string): string[] {
  if (!URL.canParse(secret.trim())) return []
  const { protocol, host, hostname } = new URL(secret.trim())
  return hostname.length < shortestSecret ? [] : [`${protocol}//${host}`, host, hostname]
}

/** The secret, and its longer lines: one of them may be written alone. */
function splitSecret(secret: string): string[] {
  const lines = secret.split(/\r?\n/).filter(line => line.length >= shortestPart)
  return [secret, secret.trim(), ...lines]
}

/** In lower case; they are found in any. */
function hexForms(secret: string): string[] {
  const forms = splitSecret(secret).map(text => Buffer.from(text).toString("hex"))
  return forms.filter(text => text.length >= shortestSecret)
}

/** The forms in which a secret may be returned, but for the hexadecimal one. */
function writings(secret: string): Set<string> {
  const found = new Set<string>()
  for (const text of splitSecret(secret)) {
    for (const written of [text, ...escapedForms(text), ...urlForms(text), ...base64Forms(text)]) {
      if (written.length >= shortestSecret) found.add(written)
    }
  }
  return found
}

/** In JSON, in JSON within JSON, and as written by serializers that use only ASCII. */
function escapedForms(text: string): string[] {
  const once = JSON.stringify(text).slice(1, -1)
  const ascii = once.replace(
    /[\u0080-\uffff]/g,
    unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  )
  return [once, ascii, JSON.stringify(once).slice(1, -1)]
}

function urlForms(text: string): string[] {
  const wellFormed = Buffer.from(text).toString()
  const forms = [
    encodeURIComponent(wellFormed),
    encodeURI(wellFormed),
    new URLSearchParams({ v: wellFormed }).toString().slice(2),
  ]
  return [...forms, ...forms.map(form => form.replace(/%[0-9A-F]{2}/g, code => code.toLowerCase()))]
}

/**
 * Alone, and within a longer text such as `user:password`: there it starts at any of three positions of a
 * group.
 */
function base64Forms(text: string): string[] {
  const bytes = Buffer.from(text)
  const alone = bytes.toString("base64")
  const forms = [alone, alone.replace(/=+$/, ""), bytes.toString("base64url")]
  for (const before of [0, 1, 2]) {
    const padded = Buffer.concat([Buffer.alloc(before), bytes])
    const whole = padded.length - (padded.length % 3)
    const inside = padded
      .subarray(0, whole)
      .toString("base64")
      .slice(before === 0 ? 0 : before + 1)
    if (inside.length >= shortestPart) forms.push(inside, inside.replaceAll("+", "-").replaceAll("/", "_"))
  }
  return forms
}
