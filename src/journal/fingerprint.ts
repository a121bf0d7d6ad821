/**
 * Errors that differ only in numbers, ids and quoted texts have one fingerprint. The words of an error are those that
 * remain: `error_text` searches for them.
 */
import { createHash } from "node:crypto"

export interface FingerprintedError {
  readonly code: string
  readonly message: string
  readonly node?: string | undefined
}

/** What follows in a longer message is ignored. */
const MAX_MESSAGE = 1_000
/** At most this many different words of an error are searched. */
const MAX_WORDS = 20
const MAX_WORD = 40

export function fingerprint({ code, message, node = "" }: FingerprintedError): string {
  const text = [code, node, normalizedMessage(message)].join("\u001f")
  return createHash("sha256").update(text).digest("hex").slice(0, 16)
}

/** An apostrophe inside a word ("couldn't") begins no quoted text. A word with a digit is an id. */
export function normalizedMessage(message: string): string {
  return message
    .slice(0, MAX_MESSAGE)
    .replaceAll(/"[^"]*"|`[^`]*`|(?<![\p{L}\p{N}])'[^']*'(?![\p{L}\p{N}])/gu, "?")
    .replaceAll(/[\p{L}_]*\p{N}[\p{L}\p{N}_]*(?:[-.:][\p{L}\p{N}_]*\p{N}[\p{L}\p{N}_]*)*/gu, "?")
    .replaceAll(/\s+/gu, " ")
}

/** In lower case, each once. */
export function errorWords(message: string): ReadonlySet<string> {
  const words = new Set<string>()
  for (const word of searchedWords(normalizedMessage(message))) {
    if (words.size === MAX_WORDS) break
    words.add(word)
  }
  return words
}

/** The words of a search; those of an error are found in the same way. */
export function searchedWords(text: string): string[] {
  return [...text.toLowerCase().matchAll(/[\p{L}_]{2,}/gu)].map(([word]) => word.slice(0, MAX_WORD))
}
