import { HandlerError } from "../../worker/fail.ts"
import type { AdapterContext } from "../adapter.ts"

/** On redelivery the groups may differ: part of a group would be considered written, or be written twice. */
export function refuseGathered({ gathered }: AdapterContext): void {
  if (gathered.length === 0) return
  throw new HandlerError(
    "A route that gathers messages cannot write them exactly once: on redelivery they may be grouped " +
      "differently. Let the route send the list to a queue (outbound), and write it in the route that reads that queue.",
    { code: "E725", retryable: false },
  )
}
