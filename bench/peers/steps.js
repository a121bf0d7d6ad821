/**
 * The functions of the steps, the same for every peer, and the results that a job must have.
 *
 * 1. A step does nothing but compute a number from those before it: the engine is measured.
 * 2. The result of a job depends on every one of its steps, so a lost or repeated step shows in it.
 * 3. Every call is counted: `calls` is compared with the number of steps of all jobs.
 */
export const CHAIN = 10
export const FAN = 100

let calls = 0

export const callsSoFar = () => calls

/** A step of a chain; a one-node job is a chain of one. */
export function add(x) {
  calls++
  return x + 1
}

/** One of the steps that run side by side, with its number. */
export function item(x, k) {
  calls++
  return x + k
}

/** The step that reads the results of all items. */
export function join(values) {
  calls++
  return values.reduce((sum, value) => sum + value, 0)
}

/** The numbers of the items of a fan. */
export const numbers = width => Array.from({ length: width }, (_, k) => k)

export const stepsOf = (shape, width) => ({ single: 1, chain: CHAIN, fan: FAN + 2, wide: width + 1 })[shape]

export function expected(shape, x, width) {
  if (shape === "single") return x + 1
  if (shape === "chain") return x + CHAIN
  const [count, from] = shape === "fan" ? [FAN, x + 1] : [width, x]
  return count * from + (count * (count - 1)) / 2
}
