/** What the terminal can display: colours, and how many columns a text takes. */
import pc from "picocolors"

export type Paint = Pick<
  ReturnType<typeof pc.createColors>,
  "bold" | "dim" | "red" | "green" | "yellow" | "cyan"
>

/** Colours only on a terminal, unless NO_COLOR or FORCE_COLOR is set. */
export function paintFor(stream: { readonly isTTY?: boolean }, env = process.env): Paint {
  return pc.createColors(wantsColor(stream, env))
}

function wantsColor(stream: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv): boolean {
  if (env.NO_COLOR) return false
  if (env.FORCE_COLOR) return env.FORCE_COLOR !== "0"
  return stream.isTTY === true && env.TERM !== "dumb"
}

let segmenter: Intl.Segmenter | undefined

/** Made when it is needed: making it takes 8 ms of processor time, and most texts are ASCII. */
function graphemes(text: string): Iterable<Intl.SegmentData> {
  segmenter ??= new Intl.Segmenter()
  return segmenter.segment(text)
}

const ascii = /^[ -~]*$/
const wide =
  /\p{Extended_Pictographic}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{20000}-\u{3fffd}]/u

/** Columns on a terminal: East Asian characters and emoji take two. */
export function width(text: string): number {
  if (ascii.test(text)) return text.length
  let columns = 0
  for (const { segment } of graphemes(text)) columns += wide.test(segment) ? 2 : 1
  return columns
}

/** Foreign text must not move the cursor or change the colours of the terminal, and must not contain what nobody sees. */
export function printable(text: string): string {
  return text.replace(/\t/g, "  ").replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "\ufffd")
}

/** C1 controls, which some terminals execute, line separators, and format characters, which reorder text or are invisible. We never write these ourselves. */
const hostile = /[\u0080-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu

/** As JSON escapes: inside JSON the value stays the same, elsewhere they are visible. */
function escapeHostile(text: string): string {
  return text.replace(hostile, found =>
    found
      .split("")
      .map(unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
      .join(""),
  )
}

/** From now on all text written to the stream is escaped, so that no command can forget it. */
export function guardStream(stream: NodeJS.WriteStream): void {
  const write = stream.write.bind(stream) as (...given: unknown[]) => boolean
  stream.write = ((chunk: unknown, ...rest: unknown[]) =>
    write(typeof chunk === "string" ? escapeHostile(chunk) : chunk, ...rest)) as typeof stream.write
}

/**
 * The beginning of a text that takes at most `columns`, with an ellipsis if something is left out. Reads no further than
 * that: an output may have megabytes, and splitting graphemes is slow.
 */
export function shorten(text: string, columns: number): string {
  const head = text.slice(0, Math.max(columns, 1) * LONGEST_GRAPHEME)
  if (text.length <= columns && ascii.test(text)) return text
  let used = 0
  let end = 0
  for (const { segment, index } of graphemes(head)) {
    used += wide.test(segment) ? 2 : 1
    if (used > columns) break
    if (used < columns) end = index + segment.length
  }
  if (used <= columns && head === text) return text
  return columns < 1 ? "" : `${text.slice(0, end)}…`
}

/** Code units of one grapheme: an emoji of a family has some thirty. */
const LONGEST_GRAPHEME = 64

/** `0.8 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h` */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`
  const minutes = Math.round(seconds) / 60
  if (minutes < 60) return `${Math.floor(minutes)} min ${Math.round(seconds) % 60} s`
  const hours = Math.floor(minutes / 60)
  return hours < 48
    ? `${hours} h ${Math.floor(minutes) % 60} min`
    : `${Math.floor(hours / 24)} d ${hours % 24} h`
}

/** How long a job took, from its start; "": it has not ended. A server before 0.2 does not send `start_at`. */
export function tookText(job: {
  readonly created_at: string
  readonly start_at?: string | null
  readonly finished_at: string | null
}): string {
  const { created_at, start_at, finished_at } = job
  const begin = Date.parse(start_at ?? created_at)
  return finished_at === null ? "" : duration(Math.max(0, Date.parse(finished_at) - begin))
}

export function count(n: number, noun: string): string {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`
}

/** For `wrapped`: a pipe gets whole lines. */
export function wrapWidth({ isTTY, columns }: NodeJS.WriteStream): number {
  return isTTY ? columns : Number.POSITIVE_INFINITY
}

/** Broken at spaces; a longer word is broken anywhere. */
export function wrapped(text: string, columns: number): string[] {
  const lines: string[] = []
  let line = ""
  for (const word of printable(text).split(" ")) {
    let rest = word
    if (line !== "" && width(line) + 1 + width(rest) > columns) {
      lines.push(line)
      line = ""
    }
    while (width(rest) > columns) {
      lines.push(rest.slice(0, columns))
      rest = rest.slice(columns)
    }
    line = line === "" ? rest : `${line} ${rest}`
  }
  return line === "" ? lines : [...lines, line]
}
