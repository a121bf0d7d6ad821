/** What the provider and pipeline stores on SQLite do beyond the contract. */
import { describe, expect, it } from "vitest"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { attempts, invocation, message, NOW, parked, startExecution } from "./pipeline-fixture.ts"

type Verbs = Record<string, (...args: unknown[]) => unknown>

/** The verbs of a store, and the names of those that were called. */
function recorded<T extends object>(store: T): { store: T; called: Set<string>; all: string[] } {
  const called = new Set<string>()
  const all = Object.getOwnPropertyNames(Object.getPrototypeOf(store)).filter(name => name !== "constructor")
  const verbs = store as unknown as Verbs
  const entries = all.map(name => {
    const verb = (...args: unknown[]) => {
      called.add(name)
      return verbs[name]!(...args)
    }
    return [name, verb]
  })
  return { store: Object.fromEntries(entries) as T, called, all: all.sort() }
}

/** A store in memory, and the steps of its statements that read a table from one end to the other. */
function planned() {
  const { connection, stores } = createMemoryStore()
  const seen = new Set<string>()
  const prepare = connection.prepare.bind(connection)
  connection.prepare = sql => {
    seen.add(sql)
    return prepare(sql)
  }
  const steps = (sql: string) =>
    connection.database.prepare(`explain query plan ${sql}`).all() as { detail: string }[]
  const scans = () =>
    [...seen].flatMap(sql => {
      const plan = steps(sql)
      // Parts of the statement itself, which are bounded, are no tables: lists, and the steps of a walk.
      const whole = plan.filter(
        ({ detail }) =>
          !/^SCAN (json_each|CONSTANT ROW|\(subquery|(w|s|f|l|one|seen|step)( |$))/.test(detail) &&
          /^SCAN /.test(detail),
      )
      return whole.filter(({ detail }) => !/ USING (COVERING )?INDEX /.test(detail)).map(() => sql)
    })
  /** The statements that sort rows of a table themselves. */
  const sorts = () =>
    [...seen].filter(sql => steps(sql).some(({ detail }) => detail === "USE TEMP B-TREE FOR ORDER BY"))
  return { connection, stores, scans, sorts }
}

describe("statements of the stores on SQLite", () => {
  it("of providers never read a table whole", () => {
    const { connection, stores, scans } = planned()
    const { store: providers, called, all } = recorded(stores.providers)
    const [provider, partitions, at] = ["acme", [0], NOW]
    const one = { jobId: "one", node: 0, partition: 0, owner: "ada" }
    const two = { ...one, jobId: "two" }
    const terms = { provider, limit: 1, leaseMs: 10, at }
    connection.database.exec(`
      insert into jobs (id, seq, created_at, updated_at, partition, workflow_version, priority, status, owner, workflow)
      values ('one', 1, 1, 1, 0, 1, 0, 'CANCELLED', 'ada', 'flow');
      insert into operations (provider, external_id, job_id, node, item, partition, attempt, submitted_at, unseen)
      values ('acme', 'op-1', 'one', 0, -1, 0, 1, 1, 0), ('acme', 'op-2', 'one', 0, -1, 0, 1, 1, 1)`)
    providers.requestSlots(terms, [one, two])
    providers.slotPosition({ ...two, provider })
    providers.grantSlots({ ...terms, at: at + 10 })
    providers.releaseSlot(one)
    providers.renewSlots({ partitions, at, leaseMs: 10 })
    providers.idleSlots({ partitions, grantedBefore: at })
    const operation = { provider, externalId: "op-1" }
    providers.claimOperation({ ...operation, owner: "ada", at, abandonedBefore: 0 })
    providers.takeRate({ provider, intervalMs: 1, at, maxWaitMs: 1 })
    providers.slowDown({ provider, until: at })
    providers.restUntil({ provider })
    const event = { eventId: "e", receivedAt: at, verdict: "parked", reason: null, bytes: 1 } as const
    providers.receiveEvent({ ...operation, ...event, news: '{"a":1}' })
    providers.deliverEvents({ operation, at })
    providers.deliverEvents({ operation: null, at })
    providers.listEvents({ provider, limit: 1 })
    providers.jobWebhooks({ jobId: "one", after: 0, limit: 1, perOperation: 1 })
    providers.dueCancels({ partitions, providers: [provider], at, limit: 1 })
    providers.settleCancel({ ...operation, ...one, again: null })
    providers.unseenSubmissions({ jobId: "one" })
    providers.unseenSubmissions({ partitions, at })
    expect(providers.settleSubmission({ ...one, attempt: 1, externalId: "op-3", at })).not.toBeNull()
    providers.noteError({ provider, at, what: "poll", code: "E408", message: "no" })
    providers.overview({ provider, at })
    expect([...called].sort()).toEqual(all)
    expect(scans()).toEqual([])
  })

  it("of pipelines never read a table whole", () => {
    const { stores, scans } = planned()
    const { store: pipelines, called, all } = recorded(stores.pipelines)
    const execution = pipelines.claimExecution({ jobId: "one", at: NOW, limit: 1, claimMs: 1 })!
    const [route, limit, maxBytes, replayedBy] = [0, 9, 99, "two"]
    const keys = [{ route, seq: 2 }]
    pipelines.commit({
      ...{ fence: { partition: 0, epoch: 0 }, execution, commit: 1, progress: "1", unparked: keys },
      ...{
        messages: [message(0, 1), message(0, 2)],
        lineage: attempts([invocation(0, 1)]),
        parked: [parked(0, 2)],
      },
      stored: [{ key: "k", value: "1" }],
    })
    pipelines.readExecution("one")
    pipelines.readMessages({ execution, route, after: 0, limit, maxBytes })
    pipelines.findMessages(execution, keys)
    pipelines.readRetries({ execution, route, dueBy: NOW, limit, maxBytes })
    pipelines.listDeadLetters({ execution, limit })
    pipelines.deadLettersLeft({ execution, most: 9 })
    for (const hasDeadLetters of [false, true])
      pipelines.listExecutions({ owner: "ada", hasDeadLetters, before: 9, limit, scan: 9 })
    pipelines.deadLetterKeys(execution, { route: -1, seq: -1 }, limit)
    pipelines.claimDeadLetters({ execution, keys, replayedBy, at: NOW, claimMs: 1 })
    pipelines.readReplayed({ replayedBy, limit })
    pipelines.countReplayedBefore({ execution, route, seq: 2, replayedBy })
    pipelines.findReplayed({ execution, route, replayedBy, before: 0 })
    pipelines.readLineage({ execution, keys: [{ route, seq: 1 }], limit: 1 })
    pipelines.readGathered({ execution, into: keys, limit })
    pipelines.readStored(execution, ["k"])
    pipelines.endExecution({ jobId: "one", at: NOW })
    pipelines.purgeLineage({ before: NOW + 1, limit: 99 })
    // The claim of a job that was never stored is an orphan after an hour.
    pipelines.claimExecution({ jobId: "one", at: NOW, limit: 1, claimMs: 1 })
    expect(pipelines.purgeLineage({ before: NOW + 3_600_001, limit: 99 })).toBe(3)
    expect([...called].sort()).toEqual(all)
    expect(scans()).toEqual([])
  })
})

describe("log rows on SQLite", () => {
  it("are never read whole, nor sorted by more than an item", () => {
    const { connection, stores, scans, sorts } = planned()
    const { store: logs, called, all } = recorded(stores.logs)
    const key = { jobId: "one", nodeId: "a", item: -1, fence: 1, attempt: 1 }
    logs.write([{ ...key, firstLine: 1, lastLine: 1, level: 1, lines: "[]" }])
    const page = { jobId: "one", level: 0, from: 0, limit: 9, maxBytes: 9 }
    for (const downwards of [false, true]) {
      logs.read({ ...page, downwards })
      logs.read({ ...page, downwards, nodeId: "a", attempt: 1 })
      logs.read({ ...page, downwards, nodeId: "a", item: -1 })
    }
    logs.extents("one", [{ nodeId: "a", item: -1, fence: 1, attempt: 1 }])
    connection.run("insert into log_orphans (job_id) values ('one')")
    logs.purgeRows({ limit: 9 })
    expect([...called].sort()).toEqual(all)
    expect(scans()).toEqual([])
    expect(sorts().map(sql => / and item = /.test(sql))).toEqual([true, true])
  })
})

describe("the stores on SQLite", () => {
  it("bind parameters by their names, lists as JSON, and store no text with U+0000", () => {
    const { connection } = createMemoryStore()
    const sql = "select @job_id as id, @job_id as again, @is_set as flag, @items as items, @absent as absent"
    expect(connection.get(sql, { jobId: "one", isSet: true, items: [1, "b"], other: 2 })).toEqual({
      ...{ id: "one", again: "one", flag: 1, items: '[1,"b"]', absent: null },
    })
    const insert = "insert into store (id) values (@id)"
    expect(() => connection.run(insert, { id: "a\u0000b" })).toThrow("U+0000")
    expect(connection.run(insert, { id: "c" })).toBe(1)
  })

  it("keep what a provider said with any character", async () => {
    const { providers } = openMemory()
    const text = "no\u0000film \ud83c \u001e"
    await providers.noteError({ provider: "acme", at: NOW, what: "poll", code: text, message: text })
    const { errors } = await providers.overview({ provider: "acme", at: NOW })
    expect(errors).toEqual([{ at: NOW, what: "poll", code: text, message: text }])
  })

  it("P4 claim more dead letters than one transaction marks", async () => {
    const { execution, pipelines, commit } = await startExecution(openMemory())
    const seqs = Array.from({ length: 10_001 }, (_, index) => index + 1)
    await commit({ messages: seqs.map(seq => message(0, seq)), parked: seqs.map(seq => parked(0, seq)) })
    const claim = { execution, keys: null, replayedBy: "two", at: NOW, claimMs: 1 }
    expect(await pipelines.claimDeadLetters(claim)).toBe(10_001)
    expect(await pipelines.deadLettersLeft({ execution, most: 1 })).toEqual({ count: 0, first: null })
  })
})
