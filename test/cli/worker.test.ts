import { randomUUID } from "node:crypto"
import { once } from "node:events"
import { type AddressInfo, createServer } from "node:net"
import { describe, expect, it, onTestFinished } from "vitest"
import { freePort } from "../../scripts/services/port.ts"
import { storesKey } from "../../src/broker/redis/keys.ts"
import { bareConnection, FleetStage } from "../broker/stage.ts"
import { until } from "../engine/stage.ts"
import { storeId } from "../support/store-tables.ts"
import { handlersModule } from "./handlers-for-runs.ts"
import { folderWith, startUmbra, umbra } from "./umbra.ts"

const redis = process.env.UMBRA_TEST_REDIS_URL!

function worker(prefix: string, ...flags: string[]) {
  const folder = folderWith({ "handlers.mjs": handlersModule })
  const process = startUmbra(["worker", "--redis-url", redis, "--handlers", "handlers.mjs", ...flags], {
    cwd: folder.path,
    env: { UMBRA_REDIS_PREFIX: prefix },
  })
  onTestFinished(async () => {
    process.kill("SIGKILL")
    await process.ended
    folder.remove()
  })
  return process
}

describe("umbra worker", () => {
  it("S5 S6 runs nodes for an engine of another process, says that it is well, and leaves in time", async () => {
    const stage = new FleetStage(undefined, {})
    const port = await freePort()
    const running = worker(
      stage.redis.prefix!,
      "--queues",
      "echo,long",
      "--port",
      String(port),
      "--set",
      "drain_seconds=1",
    )
    await running.wrote(/no engine has announced its store on this Redis yet/)
    const engine = await stage.engine()
    await running.wrote(/takes tasks of store [0-9a-f]{12} from Redis at .*, for echo, long\./)
    await stage.served(engine, "echo")
    const ready = await fetch(`http://127.0.0.1:${port}/ready`)
    expect([ready.status, await ready.json()]).toMatchObject([200, { ready: true, running: 0 }])
    expect((await fetch(`http://127.0.0.1:${port}/metrics`)).status).toBe(404)
    const nodes = [{ id: "a", handler: "echo", config: { n: 1 } }]
    const quick = await engine.submit({ name: "quick", nodes, output: "{{ a.n }}" })
    expect(await quick.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED", output: 1 })
    const long = await engine.submit({ name: "long", nodes: [{ id: "a", handler: "long" }] })
    await until("it runs", async () => (await engine.graph(long.id)).nodes[0]!.started_at !== null)
    running.kill("SIGTERM")
    // In time: after 4.5 s, of which 1 s is for the drain, the process itself exits with another code.
    expect((await running.ended).code).toBe(0)
    // It was given back: whoever comes next begins it again, and nobody has died.
    const shown = async () => (await engine.graph(long.id)).nodes[0]!
    await until("it is known", async () => (await shown()).last_attempt?.outcome === "handed_over")
    expect(await shown()).toMatchObject({ attempt: 1, losses: 0 })
    await long.cancel()
  })

  it("refuses to start if engines of several stores use the Redis, unless --store says which", async () => {
    const stages = [new FleetStage(undefined, {}), new FleetStage(undefined, {})] as const
    Object.assign(stages[1].redis, { prefix: stages[0].redis.prefix })
    const engines = [await stages[0].engine(), await stages[1].engine()] as const
    const ids = [await engines[0].storeId(), await engines[1].storeId()] as const
    const { connection } = await bareConnection(stages[0])
    const announced = () => connection.send(["HLEN", storesKey(stages[0].redis.prefix!)])
    await until("both are announced", async () => (await announced()) === 2)
    const { code, stderr } = await worker(stages[0].redis.prefix!).ended
    expect(code).toBe(2)
    expect(stderr).toMatch(/E620 Engines of 2 stores use this Redis/)
    for (const id of ids) expect(stderr).toContain(`\n  ${id}  memory`)
    expect(stderr).not.toMatch(/\ufffd|trying again/)
    const running = worker(stages[0].redis.prefix!, "--store", ids[1])
    await running.wrote(new RegExp(`takes tasks of store ${ids[1]} `))
    await stages[1].served(engines[1], "echo")
    running.kill("SIGTERM")
    expect((await running.ended).code).toBe(0)
    // Stopped in order: gone, not dead.
    await until("it is gone", () => engines[1].workers().length === 0)
  })

  it("does not say that it takes tasks of a store that no engine has announced", async () => {
    const stage = new FleetStage(undefined, {})
    const { connection, keys } = await bareConnection(stage)
    const running = worker(stage.redis.prefix!, "--store", storeId(stage.store))
    await running.wrote(/no engine has announced store [0-9a-f]{12} on this Redis yet/)
    await until("it is registered", async () => (await connection.send(["SCARD", keys.workers])) === 1)
    running.kill("SIGTERM")
    expect((await running.ended).stdout).not.toContain("takes tasks")
  })

  it("waits for a Redis that is not there, and says so once", async () => {
    const running = startUmbra(["worker", "--redis-url", `redis://127.0.0.1:${await freePort()}`])
    await running.wrote(/Redis cannot be reached; retrying/)
    running.kill("SIGTERM")
    const { code, stderr } = await running.ended
    expect([code, stderr.match(/cannot be reached/g)?.length]).toEqual([0, 1])
  })

  it("S10 a port that is taken is reported as an error, and nothing else starts", async () => {
    const taken = createServer().listen(0, "127.0.0.1")
    onTestFinished(() => void taken.close())
    await once(taken, "listening")
    const { port } = taken.address() as AddressInfo
    const env = { UMBRA_REDIS_PREFIX: randomUUID() }
    const { code, stderr } = await umbra(["worker", "--redis-url", redis, "--port", String(port)], { env })
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/^umbra: E638 Cannot listen on 127\.0\.0\.1 port/),
    ])
  })

  it.each([
    [["worker"], /E620 A worker needs a Redis address/],
    [["worker", "--redis-url", "localhost:6379"], /E620 The address of Redis must have the form redis:\/\//],
    [["worker", "--redis-url", redis, "--queues", "nobody"], /E620 This worker has no handler "nobody"/],
    [["worker", "--redis-url", redis, "--queues", ""], /E620 This worker was given an empty list of queues/],
    [["worker", "--redis-url", redis, "--concurrency", "0"], /whole number above 0/],
    [
      ["worker", "--redis-url", redis, "--set", "worker_beat_seconds=8"],
      /E620 .* at most half of worker_dead/,
    ],
    [
      ["serve", "--set", "beat_seconds=6"],
      /E620 .*beat_seconds \(6\) must be .* at most half of lease_seconds/,
    ],
    [["worker", "--redis-url", redis, "--prefetch", "-1"], /whole number, 0 or more/],
  ])("%j is told what is wrong", async (parameters, message) => {
    const { code, stderr } = await umbra(parameters, { env: { UMBRA_REDIS_PREFIX: randomUUID() } })
    expect(code).not.toBe(0)
    expect(stderr).toMatch(message)
  })
})
