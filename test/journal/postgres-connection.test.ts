import type { AddressInfo } from "node:net"
import { createServer, connect as dial, type Socket } from "node:net"
import { describe, expect, it, onTestFinished } from "vitest"
import { JournalUnavailableError } from "../../src/journal/errors.ts"
import type { Database } from "../../src/journal/postgres/database.ts"
import { PostgresWakeUps } from "../../src/journal/postgres/notify.ts"
import { openPostgres } from "../../src/journal/postgres/open.ts"
import { postgresUrl } from "../support/services.ts"
import { batch, fact, hold, newId, sendMessage } from "./fixture.ts"
import { postgresStage } from "./postgres-stage.ts"

/** Between us and PostgreSQL: can go half-open (nothing passes, nothing closes), for all or for those there are. */
async function proxyTo(url: string) {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  let silent = false
  let generation = 0
  const server = createServer(near => {
    const far = dial(Number(target.port), target.hostname)
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.on("error", () => {})
    }
    const born = generation
    const passes = () => !silent && born === generation
    near.on("data", chunk => void (passes() && far.write(chunk)))
    far.on("data", chunk => void (passes() && near.write(chunk)))
    near.on("close", () => far.destroy())
    far.on("close", () => void (passes() && near.destroy()))
  })
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const proxied = new URL(url)
  proxied.port = String((server.address() as AddressInfo).port)
  return {
    url: proxied.href,
    goSilent: () => {
      silent = true
    },
    goDeaf: () => {
      generation++
    },
    comeBack: () => {
      silent = false
    },
  }
}

const endSessions =
  "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'umbra'"

describe("PostgreSQL connections", () => {
  it("S1 a notification that waits for a connection is sent before the store is closed", async () => {
    const stage = await postgresStage()
    const [leaving, peer] = [await stage.open(), await stage.open()]
    const received: string[] = []
    await peer.feed.listen!(text => void received.push(text))
    // More queries than the pool has connections: the notification waits behind them.
    for (let query = 0; query < 100; query++) leaving.readPartitions().catch(() => {})
    leaving.feed.notify("released")
    await leaving.close()
    await expect.poll(() => received).toEqual(["released"])
  })

  it("X7 half-open ones are given up after the time limit, for appends and for queries", async () => {
    const stage = await postgresStage()
    const proxy = await proxyTo(stage.url)
    const journal = await stage.open({ queryTimeoutMs: 1000, retry: { tries: 1 } }, proxy.url)
    const held = await hold(journal)
    const sent = batch(held, { facts: [fact(held, 1)] })
    await journal.append(batch(held, {}))
    proxy.goSilent()
    await expect(journal.append(sent)).rejects.toBeInstanceOf(JournalUnavailableError)
    await expect(journal.readPartitions()).rejects.toThrow("no answer within 1000 ms")
    proxy.comeBack()
    await expect
      .poll(() =>
        journal.append(sent).then(
          ({ held: has }) => has.size,
          () => 0,
        ),
      )
      .toBe(1)
    expect(await journal.readPartitions()).toHaveLength(64)
  })

  it("X7 that the server ended are replaced without an error for callers", async () => {
    const stage = await postgresStage()
    const journal = await stage.open({ retry: { sleep: async () => {} } })
    const held = await hold(journal)
    for (let round = 0; round < 3; round++) {
      await stage.bystander.query(endSessions)
      expect(await journal.readPartitions()).toHaveLength(64)
      const facts = [fact(held, round)]
      const append = () =>
        journal.append(batch(held, { facts })).then(
          result => result.held.size,
          () => 0,
        )
      await expect.poll(append).toBe(1)
      expect(await journal.readFacts([facts[0]!.jobId])).toHaveLength(1)
    }
  })

  it("X7 idle for long are checked before use, and replaced when they do not answer", async () => {
    const stage = await postgresStage()
    const proxy = await proxyTo(stage.url)
    const once = { checkIdleMs: 0, checkTimeoutMs: 100, poolSize: 1, retry: { tries: 1 } }
    const journal = await stage.open(once, proxy.url)
    await journal.readPartitions()
    proxy.goDeaf()
    expect(await journal.readPartitions()).toHaveLength(64)
  })

  it("X7 short operations are tried 4 times, after 1 s, 2 s and 4 s, then fail", async () => {
    const stage = await postgresStage()
    const slept: number[] = []
    const sleep = async (ms: number) => void slept.push(ms)
    const gone = new URL(postgresUrl())
    gone.port = "1"
    await expect(openPostgres(gone.href, { retry: { sleep } })).rejects.toBeInstanceOf(
      JournalUnavailableError,
    )
    expect(slept).toEqual([1_000, 2_000, 4_000])
    slept.length = 0
    const wait = { sleep, tries: 9, initialMs: 4_000 }
    await expect(openPostgres(gone.href, { retry: wait })).rejects.toBeInstanceOf(JournalUnavailableError)
    expect(slept).toEqual([4_000, 8_000, 16_000, 30_000, 30_000, 30_000, 30_000, 30_000])
    const journal = await stage.open({ retry: { sleep } })
    await journal.close()
    slept.length = 0
    await expect(journal.readPartitions()).rejects.toBeInstanceOf(JournalUnavailableError)
    expect(slept).toEqual([])
  })

  it("never show a password, whatever goes wrong", async () => {
    const secret = "s3cr3t-pass"
    const wrong = new URL(postgresUrl())
    wrong.username = "nobody"
    wrong.password = secret
    const noDatabase = new URL(postgresUrl())
    noDatabase.pathname = "/does_not_exist"
    const locations = [
      wrong.href,
      noDatabase.href,
      `postgres://u:${secret}@127.0.0.1:1/db`,
      `postgres://u:${secret}@:x:/db`,
    ]
    for (const location of locations) {
      const error = await openPostgres(location, { retry: { tries: 1 } }).catch((found: unknown) => found)
      expect(error).toHaveProperty("code")
      expect((error as Error).message).not.toContain(secret)
      const password = new URL(postgresUrl()).password
      if (password) expect((error as Error).message).not.toContain(password)
    }
    const stage = await postgresStage()
    const { label } = (await stage.open()).capabilities
    const { username, password, host } = new URL(stage.url)
    expect(label).toContain(host)
    if (password) expect(label).not.toContain(password)
    expect(label).not.toContain(`${username}:`)
  })

  it("listening again after being cut off, and looking everywhere once", async () => {
    const stage = await postgresStage()
    const journal = await stage.open({ retry: { sleep: async () => {} } })
    const peer = await stage.open({ retry: { sleep: async () => {} } })
    const received: number[] = []
    const stop = await journal.listen!(partition => void received.push(partition))
    await stage.bystander.query(endSessions)
    await expect.poll(() => received.length).toBe(64)
    await sendMessage(peer, { partition: 7, jobId: newId(), command: "{}", sentAt: 1 })
    await expect.poll(() => received.slice(64)).toEqual([7])
    await stop()
  })

  it("notifying the owners of many messages", async () => {
    const stage = await postgresStage()
    const [journal, peer] = [await stage.open(), await stage.open()]
    const received = new Set<number>()
    const stop = await journal.listen!(partition => void received.add(partition))
    const send = (n: number) =>
      sendMessage(peer, { partition: n % 4, jobId: newId(), command: "{}", sentAt: n })
    await Promise.all(Array.from({ length: 200 }, (_, n) => send(n)))
    await expect.poll(() => [...received].sort()).toEqual([0, 1, 2, 3])
    await stop()
  })

  it("collecting notifications while one is in flight: many messages cost two", async () => {
    const sent: unknown[] = []
    const answers: (() => void)[] = []
    const query = (name: string, { partitions }: { readonly partitions: string }) => {
      sent.push([name, partitions])
      return new Promise<void>(resolve => answers.push(resolve))
    }
    const database = { query } as unknown as Database
    const unused = { url: postgresUrl(), queryTimeoutMs: 1000, connectTimeoutMs: 1000 }
    const wakeUps = new PostgresWakeUps({ ...unused, database, partitions: 64, retry: {} })
    for (let n = 0; n < 200; n++) wakeUps.notify([n % 4])
    expect(sent).toEqual([["notify", "0"]])
    const closing = wakeUps.close()
    answers[0]!()
    await expect.poll(() => answers.length).toBe(2)
    answers[1]!()
    await closing
    expect(sent).toEqual([
      ["notify", "0"],
      ["notify", "1,2,3,0"],
    ])
  })
})
