/** Converts options to the form of a definition: `maxAttempts` becomes `max_attempts`, at any depth. `undefined` is left out. */
export function written(options: object): Record<string, unknown> {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined)
  return Object.fromEntries(
    entries.map(([key, value]) => [
      key.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`),
      typeof value === "object" && value !== null ? written(value) : value,
    ]),
  )
}
