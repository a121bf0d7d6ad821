/** Delays requests about what is shown until it has stopped changing. */
import { useEffect, useState } from "react"

const SETTLE_MS = 250

export const endedJobs: ReadonlySet<string> = new Set([
  "COMPLETED",
  "FAILED",
  "CANCELLED",
  "EXPIRED",
  "DELETED",
])

/** Whether the value has not changed for a while. The first one counts at once. */
export function useIsSettled(value: string): boolean {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), SETTLE_MS)
    return () => clearTimeout(timer)
  }, [value])
  return settled === value
}
