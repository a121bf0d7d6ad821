/**
 * A database that 0.1.0 left behind (scripts/record-database.ts): two engines were killed in the middle of their work, and a
 * third process sent messages that no engine has read. This release migrates it and brings every job to its right end.
 */
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { gunzipSync } from "node:zlib"
import pg from "pg"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { systemClock } from "../../src/engine/clock.ts"
import { openReader } from "../../src/jobs/reader.ts"
import { defineAdapter } from "../../src/pipeline/adapter.ts"
import { defineProvider, type OperationNews, type ProviderDefinition } from "../../src/provider/provider.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import { fail } from "../../src/worker/fail.ts"
import { collectLog, handler, until } from "../engine/stage.ts"
import { type FreshDatabase, freshDatabase } from "../support/services.ts"
import { cancelled, ended, first, tokens, unfinished, unread } from "./recorded/cases.ts"

const HOUR = 3_600_000

/** Jobs that end as soon as a process of this release runs, with the output of their node `work`. */
const resumed: Record<string, unknown> = {
  lost: "hang",
  running: "hang",
  "signal-buffered": { buffered: true },
  submitting: "early",
  "webhook-unread": "unread",
  "signal-unread": { unread: true },
  "retry-unread": "flaky",
  "submit-unread": { text: "new" },
  "child-running": { after: { from: "hang" } },
  "child-ended": { last: "the end" },
  "no-handler": "later",
}
/** Jobs that wait for a webhook: provider and operations. */
const awaitWebhooks: Record<string, readonly [string, ...string[]]> = {
  webhook: ["acme", "op-webhook"],
  preview: ["showing", "op-preview"],
  "slot-held": ["narrow", "op-held"],
  "slot-granted": ["narrow", "op-granted"],
  "slot-awaited": ["narrow", "op-awaited"],
  "items-external": ["acme", "op-item-1", "op-item-2"],
  "no-provider": ["absent", "op-absent"],
}
/** Jobs that end an hour after the recording, with the output of `work`. */
const anHourLater: Record<string, unknown> = {
  retrying: "flaky",
  sleeping: { woke_at: expect.any(String) },
  "signal-default": { ok: false },
  poll: "polled op-poll",
  "child-failed": { after: { from: "flaky" } },
  items: [0, 1, 2, 3, 4, 5].map(item => ({ item })),
  "deleted-workflow": { woke_at: expect.any(String) },
  "pipeline-node": {
    routes: expect.objectContaining({
      work: { messages: 6, done: 5, failed: 1, failed_tries: 2, dead_lettered: 1 },
    }),
  },
}

describe("a database that 0.1.0 left behind", () => {
  let database: FreshDatabase
  let recordedAt: number
  /** Ids of jobs by their case. */
  let ids: Record<string, string>
  /** What ran in this process: "JOB NODE HANDLER ITEM". */
  const runs: string[] = []
  const numbers: number[] = []
  const submissions = new Map<string, string>()
  const cancels: string[] = []
  const { log, lines } = collectLog()

  beforeAll(async () => {
    database = await freshDatabase()
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    await client.query(gunzipSync(readFileSync(new URL("recorded/0.1.0.sql.gz", import.meta.url))).toString())
    const { rows } = await client.query(
      "select greatest((select max(updated_at) from umbra.jobs), (select max(sent_at) from umbra.inbox))::float8 as at",
    )
    recordedAt = rows[0].at
    const jobs = await client.query(
      "select labels ->> 'case' as name, id from umbra.jobs where labels ->> 'case' is not null and labels ->> 'replay_of' is null and owner = 'local'",
    )
    ids = Object.fromEntries(jobs.rows.map(({ name, id }) => [name, id]))
    const submitted = await client.query("select job_id from umbra.inbox where command ->> 'type' = 'submit'")
    ids["submit-unread"] = submitted.rows[0].job_id
    await client.end()
  })
  afterAll(() => database.drop())

  /** The output of a handler of the recording that did not end there is the handler's name. */
  const handlers = ["step", "hang", "flaky", "declined", "large", "item", "last", "later"].map(name =>
    handler(name, (config, { jobId, nodeId, idempotencyKey }) => {
      runs.push(`${jobId} ${nodeId} ${name} ${idempotencyKey.split("/")[2] ?? ""}`.trim())
      return name === "step" || name === "item" ? config : name
    }),
  )

  const provider = (name: string, rest: Partial<ProviderDefinition> = {}) =>
    defineProvider({
      ...{ name, rate: null, concurrency: null, pollSeconds: [36_000] },
      submit(config, { idempotencyKey }) {
        const { operation } = config as { operation: string }
        submissions.set(idempotencyKey, operation)
        return { externalId: operation }
      },
      poll: ({ externalId }) => ({ status: "completed", output: `polled ${externalId}` }),
      cancel: ({ externalId }) => void cancels.push(externalId),
      verify: ({ headers }) => headers.signature === "genuine",
      webhook({ body }) {
        const { id, event, news } = body as unknown as { id: string; event: string; news: OperationNews }
        return { externalId: id, eventId: event, news }
      },
      ...rest,
    })
  const providers = [
    ...["acme", "polled", "showing", "slow", "absent"].map(name => provider(name)),
    provider("narrow", { concurrency: 1 }),
  ]

  const adapters = [
    defineAdapter({
      type: "number",
      process({ body }) {
        const { number } = body as { number: number }
        numbers.push(number)
        if (number === 3) fail("three is not wanted", { retryable: false })
        return body
      },
    }),
    defineAdapter({ type: "sum", process: () => null }),
  ]

  /** Opens the database at a time after the recording. */
  const openAt = (ms: number) => {
    const shift = recordedAt + ms - Date.now()
    return openUmbra(database.url, {
      ...{ handlers, providers, adapters, log },
      clock: { ...systemClock, now: () => Date.now() + shift },
      engine: { beatSeconds: 0.1, leaseSeconds: 2, providerSweepSeconds: 0.2 },
    })
  }

  const complete = (umbra: Umbra, name: string, id: string) =>
    umbra.webhooks.receive(name, {
      body: Buffer.from(
        JSON.stringify({ id, event: `end of ${id}`, news: { status: "completed", output: `made ${id}` } }),
      ),
      headers: { signature: "genuine" },
    })
  const isExternal = async (umbra: Umbra, jobId: string, operation: string) =>
    (await umbra.graph(jobId)).waiting_for.some(
      wait => wait.kind === "external" && wait.external_id === operation,
    ) ||
    (await umbra.items(jobId, "work").catch(() => null))?.items.some(({ status }) => status === "WAITING")

  const endOf = async (umbra: Umbra, name: string) => {
    const job = await umbra.wait(ids[name]!, { timeoutMs: 60_000 })
    return { name, status: job.status, output: job.output, error: job.error }
  }
  const completed = (name: string, work: unknown) => ({
    ...{ name, status: "COMPLETED", output: { after: { from: work } }, error: null },
  })

  /** Jobs whose journal and row differ. */
  async function differences(): Promise<unknown[]> {
    const reader = await openReader(database.url)
    const found: unknown[] = []
    let count = 0
    for await (const { jobId, differences } of reader.verifyAll()) {
      count++
      if (differences.length > 0) found.push({ jobId, differences })
    }
    await reader.close()
    expect(count).toBeGreaterThan(Object.keys(unfinished).length)
    return found
  }

  it("J18 can be read before an engine opens it", async () => {
    expect(await differences()).toEqual([])
    const reader = await openReader(database.url)
    for (const [name, [, status]] of Object.entries(ended)) {
      expect({ name, status: (await reader.job(ids[name]!)).status }).toEqual({ name, status })
      expect((await reader.events(ids[name]!)).at(-1)).toMatchObject({ type: `job.${status.toLowerCase()}` })
    }
    expect((await reader.job(ids.completed!)).output).toEqual({ after: { from: { text: "as it was" } } })
    expect((await reader.job(ids.large!)).output).toEqual({ after: { from: "x".repeat(300_000) } })
    expect((await reader.job(ids.declined!)).error).toMatchObject({ code: "CARD_DECLINED", node: "work" })
    expect((await reader.graph(ids.skipped!)).nodes.map(({ status }) => status)).toEqual([
      ...["COMPLETED", "SKIPPED", "COMPLETED"],
    ])
    expect((await reader.jobs({ statuses: ["EXPIRED"] })).map(({ job_id }) => job_id)).toEqual([ids.expired])
    expect(await reader.jobs({ owner: "alice" })).toMatchObject([
      { workflow: "signal", labels: { case: "owned" } },
    ])
    await reader.close()
  })

  it("continues with all work that is due, and repeats nothing that was completed", async () => {
    const umbra = await openAt(10_000)
    try {
      for (const [name, work] of Object.entries(resumed))
        expect(await endOf(umbra, name)).toEqual(completed(name, work))
      expect(await endOf(umbra, "cancel-unread")).toMatchObject({ status: "CANCELLED" })
      await until("the job is deleted", async () => {
        const listed = await umbra.jobs({ limit: 500 })
        return !listed.some(({ job_id }) => job_id === ids["delete-unread"])
      })
      expect(await umbra.job(ids.preview!)).toMatchObject({ status: "PREVIEW" })
      expect((await umbra.graph(ids.preview!)).nodes[1]).toMatchObject({ preview: { frames: 7 } })
      for (const [name, [from, ...operations]] of Object.entries(awaitWebhooks)) {
        for (const operation of operations) {
          await until(`${name} waits for ${operation}`, () => isExternal(umbra, ids[name]!, operation))
          await complete(umbra, from, operation)
        }
        const made = operations.map(operation => `made ${operation}`)
        const work = name === "items-external" ? ["clip 0", ...made] : made[0]
        expect(await endOf(umbra, name)).toEqual(completed(name, work))
      }
      await umbra.signal(ids.signal!, "go", { ok: true })
      expect(await endOf(umbra, "signal")).toEqual(completed("signal", { ok: true }))
      for (const name of ["child-signal", "items-children"]) {
        const children = await umbra.jobs({ parentId: ids[name]! })
        for (const { job_id } of children) await umbra.signal(job_id, "go", { ok: true })
        const result = { after: { from: { ok: true } } }
        expect(await endOf(umbra, name)).toEqual(
          completed(name, children.length === 1 ? result : [result, result]),
        )
      }
      await umbra.retry(ids.failed!)
      expect(await endOf(umbra, "failed")).toEqual(completed("failed", "flaky"))
      await until("the operation is cancelled", () => cancels.length > 0)
      expect(cancels).toEqual(["op-cancelled"])
      // Operations of 0.1.0 are known: none was submitted again but the one that had no answer.
      expect([...submissions.values()].sort()).toEqual(["op-absent", "op-awaited", "op-early", "op-granted"])

      const { items } = await umbra.items(ids.items!, "work")
      await until("all items but one are done", async () => {
        const { items } = await umbra.items(ids.items!, "work")
        return items.filter(({ status }) => status === "COMPLETED").length === 5
      })
      expect(items[2]).toMatchObject({ status: "QUEUED" })
      for (const name of [...Object.keys(anHourLater), "signal-too-late", "expiring", "operation-failed"])
        expect({ name, finished: (await umbra.job(ids[name]!)).finished_at }).toEqual({
          name,
          finished: null,
        })
    } finally {
      await umbra.close()
    }
  })

  it("keeps workflows, aliases, tokens, idempotency keys, dead letters and lineage", async () => {
    const umbra = await openAt(60_000)
    try {
      const keyed = { case: "keyed" }
      const again = await umbra.submit(unfinished.signal!, keyed, {
        ...{ idempotencyKey: "order-1", labels: keyed, priority: 5, submittedBy: "token-1" },
      })
      expect(again.id).toBe(ids.keyed)
      await expect(
        umbra.submit(unfinished.signal!, { other: true }, { idempotencyKey: "order-1" }),
      ).rejects.toMatchObject({
        code: "E306",
      })
      expect(
        await umbra.registry.readAlias({ owner: "local", name: "versioned", alias: "stable" }),
      ).toMatchObject({
        targets: [
          { version: 1, weight: 50 },
          { version: 2, weight: 50 },
        ],
      })
      const found = await Promise.all(
        tokens.map(text => umbra.registry.readToken(createHash("sha256").update(text).digest("hex"))),
      )
      expect(found).toMatchObject([{ owner: "alice", rateLimit: 10, maxBodyBytes: 1000 }, null])
      expect(await umbra.workflow({ owner: "local", name: "deleted-workflow" })).toBeNull()
      const { dead_letters } = await umbra.pipelines.deadLetters(ids["pipeline-drained"]!)
      expect(dead_letters).toMatchObject([{ id: "work:3", replayed_by: expect.any(String) }])
      const lineage = await umbra.pipelines.lineage(ids["pipeline-drained"]!, "gather:1")
      expect(lineage.message).toMatchObject({ id: "gather:1", status: "completed" })
      expect((await umbra.webhookEvents("acme")).map(({ verdict }) => verdict)).toContain("refused")
    } finally {
      await umbra.close()
    }
  })

  it("continues with what waited for a time once that time has come", async () => {
    const umbra = await openAt(2 * HOUR)
    try {
      for (const [name, work] of Object.entries(anHourLater))
        expect(await endOf(umbra, name)).toEqual(completed(name, work))
      expect(await endOf(umbra, "signal-too-late")).toMatchObject({
        status: "FAILED",
        error: { code: "E416" },
      })
      expect(await endOf(umbra, "expiring")).toMatchObject({ status: "EXPIRED" })
      expect(await endOf(umbra, "pipeline-running")).toMatchObject({
        status: "COMPLETED",
        output: {
          routes: { work: { messages: 6, done: 5, dead_lettered: 1 }, gather: { messages: 5, done: 5 } },
        },
      })
      // The provider reported that the first operation failed: the second one has a key of its own.
      const key = [ids["operation-failed"], "work", 1].join("/")
      await until("the operation is submitted again", () => submissions.get(key) === "op-failed")
      await until("its node waits", () => isExternal(umbra, ids["operation-failed"]!, "op-failed"))
      await complete(umbra, "acme", "op-failed")
      expect(await endOf(umbra, "operation-failed")).toEqual(completed("operation-failed", "made op-failed"))
    } finally {
      await umbra.close()
    }
  })

  it("brought every recorded job to its end, and ran nothing twice", async () => {
    const cases = [first, unfinished, ended, cancelled, unread].flatMap(Object.keys)
    const reader = await openReader(database.url)
    for (const name of cases) {
      const { finished_at } = await reader.job(ids[name]!).catch(() => ({ finished_at: "deleted" }))
      expect({ name, finished_at }).toEqual({ name, finished_at: expect.anything() })
    }
    await reader.close()
    expect(new Set(runs).size).toBe(runs.length)
    // `before` had completed everywhere, but for the job that no engine had stored.
    expect(runs.filter(run => run.includes(" before step"))).toEqual([`${ids["submit-unread"]} before step`])
    expect(
      runs
        .filter(run => run.includes(" item "))
        .map(run => run.split(" ").at(-1)!)
        .sort(),
    ).toEqual([...["2", "3", "4", "5"]])
    // Of two executions: messages 1 and 2 were acknowledged, 3 is a dead letter.
    expect(numbers.sort()).toEqual([4, 4, 5, 5, 6, 6])
    expect(lines.filter(({ level }) => level === "error")).toEqual([])
    expect(await differences()).toEqual([])
  })
})
