/** What a process learns of its Redis, when there is something to learn. */
import { randomUUID } from "node:crypto"
import { createServer, type Socket } from "node:net"
import { describe, expect, it, onTestFinished } from "vitest"
import { freePort } from "../../scripts/services/port.ts"
import { checkRedisUrl, RedisConnection } from "../../src/broker/redis/client/connection.ts"
import { Link } from "../../src/broker/redis/client/link.ts"
import { logTo } from "../../src/log.ts"
import { until } from "../engine/stage.ts"

/** A server that answers each command by `answer`; null: not at all. */
async function serverOf(answer: (command: string) => string | null): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.setEncoding("utf8").on("error", () => {})
    socket.on("data", text => {
      for (const command of String(text).split(/(?=\*\d+\r\n\$)/)) {
        const reply = answer(
          command
            .split("\r\n")
            .filter((_, at) => at > 0 && at % 2 === 0)
            .join(" "),
        )
        if (reply !== null) socket.write(reply)
      }
    })
  })
  const port = await freePort()
  await new Promise<void>(resolve => server.listen(port, "127.0.0.1", resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `redis://127.0.0.1:${port}`
}

function linkTo(url: string) {
  const messages: string[] = []
  const log = logTo((level, { error }, message) => messages.push(`${level} ${message}: ${error}`))
  const link = new Link({
    url,
    prefix: "test",
    store: async () => "3f9a0c12de45",
    answerMs: 1000,
    log,
    channel: keys => keys.news,
    onMessage: () => {},
    up: () => {},
    down: () => {},
  })
  onTestFinished(() => link.close())
  return { link, messages }
}

it("S10 the log has the reason why Redis cannot be used, once for each reason, and never the password", async () => {
  const answers = ["-LOADING dataset in memory\r\n", "-WRONGPASS invalid username-password pair\r\n"]
  let tries = 0
  const url = await serverOf(() => answers[Math.min(1, Math.floor(tries++ / 2))]!)
  const { messages } = linkTo(url.replace("redis://", "redis://user:secret-word@"))
  await until("it has tried often", () => tries > 5)
  expect(messages).toHaveLength(2)
  expect(messages[0]).toContain("LOADING")
  expect(messages[1]).toContain("WRONGPASS")
  expect(messages.join()).not.toContain("secret-word")
})

it("S10 no server on the port: the reason is logged", async () => {
  const { messages } = linkTo(`redis://127.0.0.1:${await freePort()}`)
  await until("it is told", () => messages.length > 0)
  expect(messages[0]).toContain("ECONNREFUSED")
})

it("S6 a connection that only listens ends when the server no longer answers", async () => {
  let isSilent = false
  const url = await serverOf(command => {
    if (isSilent) return null
    if (command.startsWith("SUBSCRIBE")) return "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
    return "+PONG\r\n"
  })
  const connection = await RedisConnection.open({ url, answerMs: 200 })
  await connection.subscribe("c", () => {})
  isSilent = true
  expect(await connection.ended).toContain("No reply")
})

it("S6 a connection that only listens stays while it is answered", async () => {
  let pings = 0
  const url = await serverOf(command => {
    if (command.startsWith("SUBSCRIBE")) return "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
    pings += 1
    return pings === 1 ? "+PONG\r\n" : "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
  })
  const connection = await RedisConnection.open({ url, answerMs: 100 })
  let isOver = false
  void connection.ended.then(() => {
    isOver = true
  })
  await connection.subscribe("c", () => {})
  await until("it has asked for longer than it waits", () => pings > 10)
  expect(isOver).toBe(false)
  connection.close()
})

describe("S6 a process that stood still longer than it waits for answers", () => {
  const url = process.env.UMBRA_TEST_REDIS_URL!
  /** Redis may be kept waiting too. */
  const answerMs = 2000
  const standStill = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3000)

  it("reads what has come meanwhile before it says that nothing came", async () => {
    const connection = await RedisConnection.open({ url, answerMs })
    onTestFinished(() => connection.close())
    const answer = connection.send(["PING"])
    await new Promise(setImmediate)
    standStill()
    expect(await answer).toBe("PONG")
  })

  it("does not count the time without a command", async () => {
    const connection = await RedisConnection.open({ url, answerMs })
    onTestFinished(() => connection.close())
    let isOver = false
    void connection.ended.then(() => {
      isOver = true
    })
    let received = 0
    await connection.subscribe(`standing-still-${randomUUID()}`, () => received++)
    standStill()
    await new Promise(resolve => setTimeout(resolve, 1.2 * answerMs))
    expect([isOver, received]).toEqual([false, 0])
  })
})

it("S10 a password with a bare % is refused before anything is opened", () => {
  expect(() => checkRedisUrl("redis://:50%off@127.0.0.1")).toThrow("%25")
})

it("S6 a Redis that became a replica is left, and not used as long as it is one", async () => {
  let isReplica = false
  const url = await serverOf(command => {
    if (command.startsWith("INFO")) {
      const info = `run_id:0123456789abcdef\r\nrole:${isReplica ? "slave" : "master"}`
      return `$${info.length}\r\n${info}\r\n`
    }
    return command.startsWith("SET") && isReplica ? "-READONLY You can't write\r\n" : "+OK\r\n"
  })
  const { link, messages } = linkTo(url)
  await until("it is there", () => link.keys !== null)
  isReplica = true
  await expect(link.send(["SET", "a", "b"])).rejects.toThrow("READONLY")
  await until("it says why it waits", () => messages.some(line => line.includes("is a replica")))
  expect(link.keys).toBeNull()
  isReplica = false
  await until("it is back", () => link.keys !== null)
})
