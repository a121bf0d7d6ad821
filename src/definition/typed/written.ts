/** Options as a definition writes them: `maxAttempts` is `max_attempts`, at any depth. What is `undefined` is left out. */
export function written(options: object): Record<string, unknown> {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined)
  return Object.fromEntries(
    entries.map(([key, value]) => [
      key.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`),
      typeof value === "object" && value !== null ? written(value) : value,
    ]),
  )
}
