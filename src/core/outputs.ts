import type { Json } from "./json.ts"

/** Outputs of nodes and items: JSON in memory, or a reference to the fact that has it. */

/** An output that is too large to keep in memory: it is read from its fact. */
export class LargeOutput {
  readonly seq: number
  readonly bytes: number
  /** The job that has the fact; undefined: the job itself. */
  readonly jobId: string | undefined
  constructor(seq: number, bytes: number, jobId?: string) {
    this.seq = seq
    this.bytes = bytes
    this.jobId = jobId
  }
}

/**
 * The outputs of a node's items, in their order; some may be too large to keep. They are read as a whole repeatedly, so
 * the result is cached, and dropped when a part leaves memory (`partLeft`).
 */
export class ListOutput {
  readonly outputs: readonly (Output | undefined)[]
  #large: readonly LargeOutput[] | undefined
  #whole: readonly Json[] | undefined

  constructor(outputs: readonly (Output | undefined)[]) {
    this.outputs = outputs
  }

  get large(): readonly LargeOutput[] {
    this.#large ??= this.outputs.filter(part => part instanceof LargeOutput)
    return this.#large
  }

  /** A copy: the reader keeps it while parts of this one leave memory. */
  whole(read: (large: LargeOutput) => Json): readonly Json[] {
    if (this.large.length > 0) return this.outputs.map(part => wholeOutput(part ?? null, read))
    this.#whole ??= this.outputs.slice() as Json[]
    return this.#whole
  }

  partLeft(): void {
    this.#large = undefined
    this.#whole = undefined
  }
}

export type Output = Json | LargeOutput | ListOutput

/** The output as JSON; `read` returns the value for a part that is not in memory. */
export function wholeOutput(output: Output, read: (large: LargeOutput) => Json): Json {
  if (output instanceof LargeOutput) return read(output)
  return output instanceof ListOutput ? output.whole(read) : output
}

export function largeParts(output: Output | undefined): readonly LargeOutput[] {
  if (output instanceof LargeOutput) return [output]
  return output instanceof ListOutput ? output.large : noParts
}

const noParts: readonly LargeOutput[] = []

/** The output for display: a part that is not in memory is shown by its size and the seq of its fact. */
export function shownOutput(output: Output): Json {
  return wholeOutput(output, ({ bytes, seq }) => ({ $large: { bytes, seq } }))
}

/** J12 */
export const skippedOutput: Json = Object.freeze({ skipped: true })
