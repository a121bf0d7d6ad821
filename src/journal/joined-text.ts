/**
 * Values joined to one text: records by U+001E, their fields by U+001F. JSON text contains neither character
 * unescaped, so nothing needs quoting. Invariant: a field that contains one of them is rejected here; otherwise it
 * would shift every record after it.
 */
import { JournalDataError } from "./errors.ts"

const RECORD = "\u001e"
export const FIELD = "\u001f"

export function records<T>(items: readonly T[], record: (item: T, index: number) => string): string {
  return items.length === 0 ? "" : items.map(record).join(RECORD)
}

/** Empty text is not JSON either, and would be read as "no value". */
export function json(text: string): string {
  if (text === "")
    throw new JournalDataError("an empty text is not JSON; use JSON.stringify to create what can be stored")
  return plain(text)
}

export function plain(text: string): string {
  if (!text.includes(RECORD) && !text.includes(FIELD)) return text
  throw new JournalDataError(
    "a stored text contains the control character U+001E or U+001F; remove it, or escape it in JSON",
  )
}
