let last = { ms: Number.NaN, text: "" }

/** Caches the last result: the times of a job, and of jobs answered together, are often equal. */
export function isoTime(ms: number): string {
  if (ms !== last.ms) last = { ms, text: new Date(ms).toISOString() }
  return last.text
}
