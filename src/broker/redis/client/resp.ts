/** The part of Redis's protocol (RESP2) that a fleet needs: encodes commands, parses replies. */

export type Reply = string | number | null | ReplyError | readonly Reply[]

/** The error reply to a command that Redis did not execute. */
export class ReplyError extends Error {
  override readonly name = "ReplyError"
}

export function encodeCommand(args: readonly string[]): string {
  let text = `*${args.length}\r\n`
  for (const arg of args) text += `$${Buffer.byteLength(arg)}\r\n${arg}\r\n`
  return text
}

interface OpenArray {
  readonly items: Reply[]
  readonly size: number
}

const CR = 13
const [ERROR, NUMBER, TEXT, ARRAY] = [..."-:$*"].map(sign => sign.charCodeAt(0))

/** Parses replies from chunks of any size. Reads every byte once, and copies it at most once. */
export class ReplyParser {
  readonly #done: (reply: Reply) => void
  #bytes: Buffer = Buffer.alloc(0)
  #at = 0
  /** Chunks received since: joined when they contain enough to continue. */
  #chunks: Buffer[] = []
  #missing = 0
  /** Incomplete arrays, the innermost last. */
  readonly #open: OpenArray[] = []

  constructor(done: (reply: Reply) => void) {
    this.#done = done
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#missing -= chunk.length
    if (this.#missing > 0) return
    const rest = this.#bytes.subarray(this.#at)
    this.#bytes =
      rest.length === 0 && this.#chunks.length === 1 ? chunk : Buffer.concat([rest, ...this.#chunks])
    this.#chunks = []
    this.#at = 0
    while (this.#element());
  }

  /** Returns false if the element is incomplete. */
  #element(): boolean {
    const end = this.#bytes.indexOf(CR, this.#at)
    if (end === -1 || end + 2 > this.#bytes.length) return this.#wait(1)
    const type = this.#bytes[this.#at]
    const line = this.#bytes.toString("latin1", this.#at + 1, end)
    if (type === TEXT) return this.#text(Number(line), end + 2)
    this.#at = end + 2
    if (type === ARRAY) this.#array(Number(line))
    else if (type === NUMBER) this.#add(Number(line))
    else this.#add(type === ERROR ? new ReplyError(line) : line)
    return true
  }

  #text(length: number, from: number): boolean {
    if (length >= 0 && from + length + 2 > this.#bytes.length)
      return this.#wait(from + length + 2 - this.#bytes.length)
    this.#at = length < 0 ? from : from + length + 2
    this.#add(length < 0 ? null : this.#bytes.toString("utf8", from, from + length))
    return true
  }

  #wait(missing: number): false {
    this.#missing = missing
    return false
  }

  #array(size: number): void {
    if (size <= 0) this.#add(size < 0 ? null : [])
    else this.#open.push({ items: [], size })
  }

  #add(value: Reply): void {
    let added = value
    for (let array = this.#open.at(-1); array !== undefined; array = this.#open.at(-1)) {
      array.items.push(added)
      if (array.items.length < array.size) return
      this.#open.pop()
      added = array.items
    }
    this.#done(added)
  }
}
