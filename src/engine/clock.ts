/** Time and randomness are arguments, so that tests never sleep and a whole fleet can be simulated from a seed. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number
  /** In [0, 1). */
  random(): number
  /** Calls `fire` once after `ms`; the returned function cancels it. */
  after(ms: number, fire: () => void): () => void
}

/** Longer delays overflow setTimeout and would fire at once. */
const LONGEST_WAIT = 2 ** 31 - 1

export const systemClock: Clock = {
  now: Date.now,
  random: Math.random,
  after(ms, fire) {
    const timer = setTimeout(fire, Math.min(Math.max(ms, 0), LONGEST_WAIT))
    return () => clearTimeout(timer)
  },
}
