/** X7: the database goes away in every way we know, under load. Nothing is lost, and nothing that ran runs again. */
import pg from "pg"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { type Postgres, startPostgres } from "../../scripts/services/postgres.ts"
import { openJournal } from "../../src/journal/open.ts"
import type { Umbra } from "../../src/umbra.ts"
import { proxyTo } from "./proxy.ts"
import { collectLog, flow, handler, open, until } from "./stage.ts"

let postgres: Postgres
beforeAll(async () => {
  postgres = await startPostgres({ settings: { log_min_messages: "fatal" } })
})
afterAll(() => postgres.stop())

const WIDTH = 4

/** A fan whose every execution is counted. */
function load() {
  const executions = new Map<string, number>()
  const step = handler("step", async (config: { ms: number }, ctx) => {
    const key = `${ctx.jobId}/${ctx.nodeId}`
    executions.set(key, (executions.get(key) ?? 0) + 1)
    await new Promise(resolve => setTimeout(resolve, config.ms))
    return 1 + Object.keys(ctx.parents).length
  })
  const parts = Array.from({ length: WIDTH }, (_, n) => ({
    id: `p${n}`,
    handler: "step",
    config: { ms: n },
    dependencies: ["first"],
  }))
  const fan = flow([
    { id: "first", handler: "step", config: { ms: 2 } },
    ...parts,
    { id: "join", handler: "step", config: { ms: 1 }, dependencies: parts.map(node => node.id) },
  ])
  return { executions, step, fan }
}

/** Submits without end until told, 16 at a time. Answers the jobs that were acknowledged. */
function submitting(umbra: Umbra, fan: ReturnType<typeof flow>) {
  const ids: string[] = []
  let isOver = false
  const work = async (): Promise<void> => {
    while (!isOver) {
      try {
        const job = await umbra.submit(fan)
        ids.push(job.id)
        await job.wait()
      } catch (error) {
        // Refused while the engine has paused; whatever else must not happen.
        if ((error as { code?: string }).code !== "E611") throw error
        await new Promise(resolve => setTimeout(resolve, 100))
      }
    }
  }
  const all = Promise.all(Array.from({ length: 16 }, work))
  return {
    ids,
    async stop() {
      isOver = true
      await all
    },
  }
}

async function everythingIsRight(umbra: Umbra, ids: readonly string[], executions: Map<string, number>) {
  for (const id of ids) {
    expect(await umbra.job(id)).toMatchObject({ status: "COMPLETED", output: { join: 1 + WIDTH } })
    expect(await umbra.queries.verify(await umbra.queries.row(id))).toEqual([])
  }
  expect(executions.size).toBeGreaterThanOrEqual(ids.length * (WIDTH + 2))
  expect([...executions.values()].filter(count => count > 1)).toEqual([])
}

async function epochs(): Promise<number[]> {
  const journal = await openJournal(postgres.url)
  const rows = await journal.readPartitions()
  await journal.close()
  return rows.map(row => row.epoch)
}

/** As often as by default, and in that order: seven seconds of waiting show nothing more. */
const quickly = { initialMs: 200 }

describe("PostgreSQL", () => {
  it("killed with SIGKILL and restarted under load: the engine pauses, logs it, resumes; no partition moves", async () => {
    const { executions, step, fan } = load()
    const { log, hasLogged } = collectLog()
    const journal = await openJournal(postgres.url, { retry: quickly })
    const umbra = await open({ at: journal, handlers: [step], log, engine: { beatSeconds: 0.3 } })
    const work = submitting(umbra, fan)
    await until("the load runs", () => work.ids.length > 50)
    const before = await epochs()
    await postgres.kill()
    await until(
      "the engine says that it has paused",
      () => hasLogged("database unavailable: engine paused"),
      60_000,
    )
    await expect(umbra.submit(fan)).rejects.toMatchObject({ code: "E611" })
    const acknowledged = work.ids.length
    await postgres.restart()
    await until("it goes on", () => work.ids.length > acknowledged + 50, 60_000)
    expect(hasLogged("database available again")).toBe(true)
    await work.stop()
    await everythingIsRight(umbra, work.ids, executions)
    expect(await epochs()).toEqual(before)
  })

  it("unavailable for longer than the lease of two engines: neither takes anything from the other", async () => {
    const { executions, step, fan } = load()
    const engine = { beatSeconds: 0.1, leaseSeconds: 4 }
    const [first, second] = [
      await open({ at: postgres.url, handlers: [step], engine }),
      await open({ at: postgres.url, handlers: [step], engine }),
    ]
    await until("both have half", () => [first, second].every(umbra => umbra.health().partitions === 32))
    const loads = [submitting(first, fan), submitting(second, fan)]
    await until("the load runs", () => loads.every(({ ids }) => ids.length > 20), 60_000)
    const before = await epochs()
    await postgres.kill()
    await new Promise(resolve => setTimeout(resolve, 7000))
    await postgres.restart()
    const acknowledged = loads.map(({ ids }) => ids.length)
    await until("both go on", () => loads.every(({ ids }, n) => ids.length > acknowledged[n]! + 20), 60_000)
    await Promise.all(loads.map(work => work.stop()))
    expect(await epochs()).toEqual(before)
    await everythingIsRight(
      first,
      loads.flatMap(({ ids }) => ids),
      executions,
    )
  })

  it("its connections cut by the server again and again, in the middle of appends", async () => {
    const { executions, step, fan } = load()
    const umbra = await open({ at: postgres.url, handlers: [step], engine: { beatSeconds: 0.3 } })
    const work = submitting(umbra, fan)
    const admin = new pg.Client(postgres.url)
    await admin.connect()
    for (let cut = 0; cut < 4; cut++) {
      const so_far = work.ids.length
      await until("the load runs", () => work.ids.length > so_far + 20, 60_000)
      const cutNow = `select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'umbra' and pid <> pg_backend_pid()`
      expect((await admin.query(cutNow)).rowCount).toBeGreaterThan(0)
    }
    await admin.end()
    await work.stop()
    await everythingIsRight(umbra, work.ids, executions)
  })

  it("behind a network that drops connections, then loses answers, then goes half-open", async () => {
    const proxy = await proxyTo(postgres.url)
    const journal = await openJournal(proxy.url, {
      queryTimeoutMs: 500,
      connectTimeoutMs: 500,
      retry: quickly,
    })
    const { executions, step, fan } = load()
    const { log, lines } = collectLog()
    const givenUpOperation = () => lines.filter(line => line.message.includes("append failed")).length
    const umbra = await open({ at: journal, handlers: [step], log, engine: { beatSeconds: 0.3 } })
    const work = submitting(umbra, fan)
    await until("the load runs", () => work.ids.length > 20)
    proxy.drop()
    const afterDrop = work.ids.length
    await until("it goes on after the drop", () => work.ids.length > afterDrop + 20, 60_000)
    for (const lost of ["answers", "everything"] as const) {
      const before = givenUpOperation()
      proxy.goSilent(lost)
      await until(`an append was given up without ${lost}`, () => givenUpOperation() > before, 60_000)
      const silent = work.ids.length
      proxy.heal()
      await until("it goes on", () => work.ids.length > silent + 20, 60_000)
    }
    await work.stop()
    await everythingIsRight(umbra, work.ids, executions)
    await umbra.close()
    await proxy.close()
  })
})
