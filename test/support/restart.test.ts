/** A private server of a test's own can be killed and comes back with what it had acknowledged. */
import { stat } from "node:fs/promises"
import pg from "pg"
import { expect, it } from "vitest"
import { startPostgres } from "../../scripts/services/postgres.ts"
import { ping, startRedis } from "../../scripts/services/redis.ts"

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  client.on("error", () => {})
  await client.connect()
  return client
}

it("PostgreSQL killed with SIGKILL under an open connection restarts on its port with every commit", async () => {
  const postgres = await startPostgres({ settings: { log_min_messages: "fatal" } })
  try {
    const before = await connect(postgres.url)
    await before.query("create table kept (id int)")
    await before.query("insert into kept values (1)")
    const firstPid = postgres.pid()
    await postgres.kill()
    await expect(connect(postgres.url)).rejects.toThrow(/ECONNREFUSED/)
    await postgres.restart()
    expect(postgres.pid()).not.toBe(firstPid)
    const after = await connect(postgres.url)
    expect((await after.query("select id from kept")).rows).toEqual([{ id: 1 }])
    await after.end()
  } finally {
    await postgres.stop()
  }
  await expect(stat(postgres.folder)).rejects.toThrow(/ENOENT/)
  expect(() => process.kill(postgres.pid(), 0)).toThrow(/ESRCH/)
})

it("Redis killed with SIGKILL restarts on its port", async () => {
  const redis = await startRedis()
  try {
    await redis.kill()
    await expect(ping(redis.port)).rejects.toThrow(/ECONNREFUSED/)
    await redis.restart()
    expect(await ping(redis.port)).toBe("+PONG\r\n")
  } finally {
    await redis.stop()
  }
  await expect(stat(redis.folder)).rejects.toThrow(/ENOENT/)
})
