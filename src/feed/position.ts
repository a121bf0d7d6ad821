import { SEQS_PER_EPOCH } from "../engine/ids.ts"

/**
 * The position of a stream, as the id of its last event.
 *
 * 1. Everything up to `seqs` was delivered; of the fact at `seqs[partition]` only the changes up to `place`.
 * 2. It contains nothing about this process: any server of the same store can resume from it.
 * 3. `at` is the time of the event, which shows whether a position is older than what is kept.
 *
 * On the wire: `j1.` and, in base64url, numbers of seven bits a byte: the first bytes of the store's id, at,
 * partition + 1, place, then for each partition its epoch and its counter. Partitions without a fact are counted.
 */
export interface Position {
  /** A mark of the store: see `storeMark`. */
  readonly store: string
  readonly at: number
  /** -1: every fact was delivered completely. */
  readonly partition: number
  readonly place: number
  readonly seqs: readonly number[]
}

const PREFIX = "j1."
const STORE_BYTES = 6

export function positionText({ store, at, partition, place, seqs }: Position): string {
  const bytes: number[] = []
  for (let i = 0; i < STORE_BYTES; i++) bytes.push(Number.parseInt(store.slice(2 * i, 2 * i + 2), 16))
  for (const value of [at, partition + 1, place]) encodeNumber(bytes, value)
  let empty = 0
  const endEmpty = () => {
    if (empty > 0) {
      encodeNumber(bytes, 0)
      encodeNumber(bytes, empty)
    }
    empty = 0
  }
  for (const seq of seqs) {
    if (seq < SEQS_PER_EPOCH) {
      empty++
      continue
    }
    endEmpty()
    encodeNumber(bytes, Math.floor(seq / SEQS_PER_EPOCH))
    encodeNumber(bytes, seq % SEQS_PER_EPOCH)
  }
  endEmpty()
  return PREFIX + Buffer.from(bytes).toString("base64url")
}

/** Parses `id`. `malformed`: not a position. `unknown`: written by another release. */
export function readPosition(id: string): Position | "malformed" | "unknown" {
  const text = /^j(\d{1,3})\.([A-Za-z0-9_-]{1,4000})$/.exec(id)
  if (text === null) return "malformed"
  if (text[1] !== "1") return "unknown"
  const bytes = Buffer.from(text[2]!, "base64url")
  const store = bytes.subarray(0, STORE_BYTES).toString("hex")
  const numbers = decodeNumbers(bytes.subarray(STORE_BYTES))
  if (numbers === null || numbers.length < 3) return "malformed"
  const [at, partition, place, ...rest] = numbers as [number, number, number, ...number[]]
  const seqs = decodeSeqs(rest)
  if (seqs === null || (partition > 0 && !seqs[partition - 1])) return "malformed"
  return { store, at, partition: partition - 1, place, seqs }
}

/** A prefix of a store's id: enough to distinguish it from another store created at the same place. */
export function storeMark(store: string): string {
  return store.replaceAll("-", "").slice(0, 2 * STORE_BYTES)
}

function decodeSeqs(numbers: readonly number[]): number[] | null {
  const seqs: number[] = []
  for (let i = 0; i < numbers.length; i += 2) {
    const [epoch, counter] = [numbers[i]!, numbers[i + 1]]
    if (counter === undefined || seqs.length > MAX_PARTITIONS) return null
    if (epoch > 0) {
      const seq = epoch * SEQS_PER_EPOCH + counter
      if (counter >= SEQS_PER_EPOCH || !Number.isSafeInteger(seq)) return null
      seqs.push(seq)
    } else if (counter > MAX_PARTITIONS) return null
    else for (let n = 0; n < counter; n++) seqs.push(0)
  }
  return seqs
}

/** A job's id has twelve bits for the partition. */
const MAX_PARTITIONS = 4096

function encodeNumber(bytes: number[], value: number): void {
  let rest = value
  while (rest >= 128) {
    bytes.push((rest % 128) + 128)
    rest = Math.floor(rest / 128)
  }
  bytes.push(rest)
}

/** null: the last number is incomplete, or a number is in a form that is never written. */
function decodeNumbers(bytes: Uint8Array): number[] | null {
  const numbers: number[] = []
  let [value, scale] = [0, 1]
  for (const byte of bytes) {
    value += (byte % 128) * scale
    if (!Number.isSafeInteger(value)) return null
    if (byte < 128) {
      numbers.push(value)
      ;[value, scale] = [0, 1]
    } else scale *= 128
  }
  return scale === 1 ? numbers : null
}

/** The position of a stream of one job: one of its facts, and the index among that fact's changes. */
export interface JobPosition {
  readonly seq: number
  readonly place: number
}

export function jobPositionText({ seq, place }: JobPosition): string {
  return `${seq}.${place}`
}

export function readJobPosition(id: string): JobPosition | "malformed" {
  const text = /^(\d{1,16})\.(\d{1,9})$/.exec(id)
  const seq = Number(text?.[1])
  return text === null || !Number.isSafeInteger(seq) ? "malformed" : { seq, place: Number(text[2]) }
}
