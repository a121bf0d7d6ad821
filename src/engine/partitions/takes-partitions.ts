/** Does the process that sends this with its heartbeat share in the partitions? */
export interface TakesPartitions {
  /** false: it never owns partitions, or it is about to end. */
  readonly takes_partitions: boolean
}

/** A process of an earlier release does not send the field, and is an engine. */
export function takesPartitions(place: string): boolean {
  try {
    return (JSON.parse(place) as Partial<TakesPartitions>).takes_partitions !== false
  } catch {
    return true
  }
}
