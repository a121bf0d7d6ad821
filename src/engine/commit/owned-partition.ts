import { UmbraError } from "../../errors.ts"

/** A partition that this engine owns. */
export interface OwnedPartition {
  readonly epoch: number
  nextSeq: number
  /** It is being handed over: its next owner dispatches what is ready. */
  isDeparting?: boolean
}

export function partitionMoved(partition: number): UmbraError {
  return new UmbraError(
    "E610",
    `Partition ${partition} is now owned by another engine; send the command again.`,
  )
}
