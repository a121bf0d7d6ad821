import type { LineageRow, MessageKey, MessageRow } from "../../src/journal/port/pipelines.ts"

const keyName = ({ route, seq }: MessageKey) => `${route}:${seq}`

/**
 * Every message but the initial ones is what its parent's rows say was emitted, once; every end is on record. Answers
 * what does not hold.
 */
export function forestProblems(
  messages: readonly MessageRow[],
  lineage: readonly LineageRow[],
  letters: readonly MessageKey[],
): string[] {
  const problems: string[] = []
  const emittedBy = new Map<string, string>()
  const rowsOf = new Map<string, LineageRow[]>()
  for (const row of lineage) {
    rowsOf.set(keyName(row), [...(rowsOf.get(keyName(row)) ?? []), row])
    for (const emitted of emittedNames(row)) {
      if (emittedBy.has(emitted)) problems.push(`${emitted} was emitted twice`)
      emittedBy.set(emitted, keyName(row))
    }
  }
  const dead = new Set(letters.map(keyName))
  for (const message of messages) {
    const name = keyName(message)
    const parent = message.parent === null ? null : keyName(message.parent)
    const emitter = emittedBy.get(name) ?? null
    if (emitter !== parent) problems.push(`${name} has parent ${parent}, and was emitted by ${emitter}`)
    emittedBy.delete(name)
    problems.push(...endProblems(name, rowsOf.get(name) ?? [], dead.has(name)))
  }
  for (const missing of emittedBy.keys()) problems.push(`${missing} was emitted, and is not there`)
  return problems
}

function endProblems(name: string, rows: readonly LineageRow[], isDead: boolean): string[] {
  const problems: string[] = []
  const attempts = [...new Set(rows.map(({ attempt }) => attempt))].sort((a, b) => a - b)
  if (attempts.some((attempt, i) => attempt !== i + 1)) problems.push(`${name} has attempts ${attempts}`)
  const last = rows.filter(({ attempt }) => attempt === attempts.at(-1))
  const hasFailed = last.some(({ status }) => status === "failed")
  if (isDead ? last.length > 0 && !hasFailed : last.length === 0 || hasFailed)
    problems.push(`${name} is ${isDead ? "a dead letter" : "acknowledged"}, its last rows say otherwise`)
  return problems
}

/** `1:5-9,2:7` */
function* emittedNames({ emitted }: LineageRow): Generator<string> {
  for (const part of emitted?.split(",") ?? []) {
    const [route, range] = part.split(":") as [string, string]
    const [from, to = from] = range.split("-").map(Number) as [number, number?]
    for (let seq = from; seq <= to; seq++) yield `${route}:${seq}`
  }
}
