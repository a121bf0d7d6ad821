let last = { ms: Number.NaN, text: "" }

/** The times of a job, and of jobs answered together, are often the same one. */
export function isoTime(ms: number): string {
  if (ms !== last.ms) last = { ms, text: new Date(ms).toISOString() }
  return last.text
}
