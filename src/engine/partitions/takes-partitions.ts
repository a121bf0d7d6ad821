/** Does the process that says this with its beat count among those that share the partitions? */
export interface TakesPartitions {
  /** false: it owns none ever, or it is about to end. */
  readonly takes_partitions: boolean
}

/** A process of an earlier release does not say it, and is an engine. */
export function takesPartitions(place: string): boolean {
  try {
    return (JSON.parse(place) as Partial<TakesPartitions>).takes_partitions !== false
  } catch {
    return true
  }
}
