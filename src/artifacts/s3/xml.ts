/** Reads what S3 answers: flat XML without attributes that matter. */

/** The text of the first element with this name; undefined: there is none. */
export function element(xml: string, name: string): string | undefined {
  const content = elements(xml, name)[0]
  return content === undefined ? undefined : decoded(content)
}

/** The content of all elements with this name, as it stands there. */
export function elements(xml: string, name: string): string[] {
  const pattern = new RegExp(`<${name}(?:\\s[^>]*)?>(.*?)</${name}>`, "gs")
  return [...xml.matchAll(pattern)].map(match => match[1]!)
}

const entities: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" }

function decoded(text: string): string {
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|(\w+));/gi, (whole, hex, decimal, name) => {
    if (name !== undefined) return entities[name] ?? whole
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16)
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole
  })
}
