/** White space as defined by Python, which differs slightly from JavaScript. */
export function isSpace(unit: number): boolean {
  if (unit <= 0x20) return unit === 0x20 || (unit >= 0x09 && unit <= 0x0d) || (unit >= 0x1c && unit <= 0x1f)
  if (unit < 0x1680) return unit === 0x85 || unit === 0xa0
  return (
    unit === 0x1680 ||
    (unit >= 0x2000 && unit <= 0x200a) ||
    unit === 0x2028 ||
    unit === 0x2029 ||
    unit === 0x202f ||
    unit === 0x205f ||
    unit === 0x3000
  )
}

export function trimStart(text: string): string {
  let from = 0
  while (from < text.length && isSpace(text.charCodeAt(from))) from += 1
  return text.slice(from)
}

export function trimEnd(text: string): string {
  let to = text.length
  while (to > 0 && isSpace(text.charCodeAt(to - 1))) to -= 1
  return text.slice(0, to)
}

/** Words between runs of white space. */
export function words(text: string): string[] {
  const found: string[] = []
  let start = -1
  for (let i = 0; i <= text.length; i++) {
    if (i === text.length || isSpace(text.charCodeAt(i))) {
      if (start !== -1) found.push(text.slice(start, i))
      start = -1
    } else if (start === -1) {
      start = i
    }
  }
  return found
}

const LINE_BREAK = /\r\n|[\n\r\v\f\x85\u2028\u2029]/g

export function lineBreakCount(text: string): number {
  let count = 0
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if ((unit >= 0x0a && unit <= 0x0d) || unit === 0x85 || unit === 0x2028 || unit === 0x2029) count += 1
  }
  return count
}

/** Lines as in `str.splitlines`: a line break at the end starts no further line. */
export function lines(text: string): string[] {
  const found = text.split(LINE_BREAK)
  if (found[found.length - 1] === "") found.pop()
  return found
}
