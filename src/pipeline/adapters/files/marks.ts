/**
 * Records which messages of one job and sink are in the file: one byte for each, at the position of its
 * number.
 */
import type { FileHandle } from "node:fs/promises"

export interface Mark {
  /** Identifies the job and the sink. */
  readonly name: string
  /** The number of the message. */
  readonly seq: number
}

/** Numbers closer together than this are read in one go: neighbours usually arrive together. */
const spanBytes = 64 * 1024

export class MarkFile {
  readonly #handle: FileHandle

  constructor(handle: FileHandle) {
    this.#handle = handle
  }

  /** Those of `seqs`, which are sorted, that are set. */
  async setOf(seqs: readonly number[]): Promise<Set<number>> {
    const set = new Set<number>()
    for (const group of grouped(seqs, (first, seq) => seq - first < spanBytes)) {
      const first = group[0]!
      const length = group.at(-1)! - first + 1
      const { buffer, bytesRead } = await this.#handle.read(Buffer.alloc(length), 0, length, first)
      for (const seq of group) if (seq - first < bytesRead && buffer[seq - first] === 1) set.add(seq)
    }
    return set
  }

  async put(seqs: readonly number[], value: 0 | 1, sync: boolean): Promise<void> {
    for (const run of grouped(seqs, (first, seq, position) => seq - first === position)) {
      const bytes = Buffer.alloc(run.length, value)
      for (let done = 0; done < run.length; )
        done += (await this.#handle.write(bytes, done, run.length - done, run[0]! + done)).bytesWritten
    }
    if (sync) await this.#handle.datasync()
  }

  close(): Promise<void> {
    return this.#handle.close()
  }
}

/** By name, sorted, without duplicates. */
export function seqsByName(appends: readonly { readonly mark: Mark }[]): Record<string, number[]> {
  const found: Record<string, Set<number>> = {}
  for (const { mark } of appends) {
    found[mark.name] ??= new Set()
    found[mark.name]!.add(mark.seq)
  }
  return Object.fromEntries(
    Object.entries(found).map(([name, seqs]) => [name, [...seqs].sort((a, b) => a - b)]),
  )
}

function grouped(
  seqs: readonly number[],
  belongs: (first: number, seq: number, position: number) => boolean,
): number[][] {
  const groups: number[][] = []
  for (const seq of seqs) {
    const group = groups.at(-1)
    if (group !== undefined && belongs(group[0]!, seq, group.length)) group.push(seq)
    else groups.push([seq])
  }
  return groups
}
