/** Pages of 100,000 log lines on SQLite are read by index. That of PostgreSQL is in postgres-pages.test.ts. */
import { expect, it, onTestFinished } from "vitest"
import { JobLogs } from "../../src/jobs/logs/logs.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { hold, newJob, store as storeJobs } from "./fixture.ts"

const LINES = 100_000
const PER_ROW = 50

it("every page of 100,000 lines is read by index, in both directions and with every filter", async () => {
  const memory = createMemoryStore()
  const journal = openMemory(memory)
  onTestFinished(() => journal.close())
  const held = await hold(journal)
  const job = newJob(held, 1)
  await storeJobs(journal, held, [job])
  const rows = Array.from({ length: LINES / PER_ROW }, (_, n) => ({
    ...{
      jobId: job.id,
      nodeId: n % 2 === 0 ? "a" : "b",
      item: n % 20 < 10 ? -1 : n % 20,
      fence: 1,
      attempt: 1,
    },
    ...{ firstLine: n * PER_ROW + 1, lastLine: (n + 1) * PER_ROW, level: n % 10 === 0 ? 2 : 1 },
    lines: JSON.stringify(
      Array.from({ length: PER_ROW }, (_, i) => [n, n % 10 === 0 ? 2 : 1, `line ${n * PER_ROW + i + 1}`]),
    ),
  }))
  for (let from = 0; from < rows.length; from += 500) await journal.logs.write(rows.slice(from, from + 500))

  const texts = new Map<string, readonly (string | number | null)[]>()
  const { connection } = memory
  const all = connection.all.bind(connection)
  connection.all = ((text: string, ...values: never[]) => {
    if (text.includes("node_logs")) texts.set(text, values)
    return all(text, ...values)
  }) as typeof connection.all
  const parts = { journal, now: Date.now, events: async () => ({ events: [], next: null }) }
  const logs = new JobLogs(parts as never)
  let read = 0
  for (let after: string | undefined; ; ) {
    const { lines, next } = await logs.page(job.id, { limit: 1000, after, source: "handler" })
    for (const { message } of lines) expect(message).toBe(`line ${++read}`)
    if (next === null) break
    after = next
  }
  expect(read).toBe(LINES)
  const filters = [
    {},
    { node: "a" },
    { node: "b", attempt: 1 },
    { node: "a", item: 12 },
    { level: "warn" as const },
  ]
  for (const filter of filters) {
    const up = await logs.page(job.id, { limit: 100, source: "handler", ...filter })
    const down = await logs.page(job.id, { limit: 100, before: "end", source: "handler", ...filter })
    expect([up.lines.length, down.lines.length]).toEqual([100, 100])
  }
  expect(texts.size).toBe(6)
  for (const [text, values] of texts) {
    const plan = all<{ detail: string }>(`explain query plan ${text}`, ...(values as never[]))
    const steps = plan.map(({ detail }) => detail).filter(detail => / node_logs| l\b| b\b/.test(detail))
    expect(steps.filter(step => step.includes("node_logs")).length).toBeGreaterThan(0)
    for (const step of steps.filter(step => step.includes("node_logs")))
      expect(step).toMatch(/^SEARCH .* USING /)
  }
})
