import { UmbraError } from "../../errors.ts"

/** A partition that this engine owns. */
export interface OwnedPartition {
  readonly epoch: number
  nextSeq: number
}

export function partitionMoved(partition: number): UmbraError {
  return new UmbraError(
    "E610",
    `Partition ${partition} is owned by another engine now; send the command again.`,
  )
}
