import { HandlerError } from "../../worker/fail.ts"
import type { AdapterContext } from "../adapter.ts"

/** Groups that are gathered anew may be others: part of one would be taken for written, or written twice. */
export function refuseGathered({ gathered }: AdapterContext): void {
  if (gathered.length === 0) return
  throw new HandlerError(
    "Messages that are gathered cannot be written once only by the same route: delivered again, they may be gathered " +
      "otherwise. Let the route send the list to a queue (outbound), and write it in the route that reads that queue.",
    { code: "E725", retryable: false },
  )
}
