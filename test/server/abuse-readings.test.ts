/**
 * S3: large jobs, definitions and schedules of one owner hold up nobody when they are read, compared, previewed or followed:
 * no piece of our code holds the event loop for more than 50 ms of processor time.
 */
import { connect } from "node:net"
import { expect, it, onTestFinished } from "vitest"
import { folderWith } from "../cli/umbra.ts"
import { serveProbed } from "./abuse/probed.ts"
import { loggingHandlers, prepare, readings } from "./abuse/readings.ts"

// UMBRA_TEST_READINGS=all: on PostgreSQL too. One store is enough for every run of the tests.
it.each(process.env.UMBRA_TEST_READINGS === "all" ? ["SQLite", "PostgreSQL"] : ["SQLite"])(
  "S3 no reading holds up the event loop on %s, and every probe of /health is answered",
  async kind => {
    const { path, remove } = folderWith({ "talks.mjs": loggingHandlers })
    onTestFinished(remove)
    const server = await serveProbed(kind, "--handlers", `${path}/talks.mjs`)
    const jobs = await prepare(server)
    const fill = (text: string) => text.replaceAll(/\b[A-Z]+2?\b/g, word => jobs[word] ?? word)
    server.probe()
    const failed: string[] = []
    for (const { status, ...sent } of readings) {
      const what = `${sent.method ?? "POST"} ${sent.path} ${String(sent.body ?? "").slice(0, 80)}`
      await server
        .mustNotHoldUp(what, async () => {
          const answer = await server.send({ ...sent, path: fill(sent.path) })
          expect([status].flat(), `${what} ${answer.text.slice(0, 300)}`).toContain(answer.status)
        })
        .catch(error => failed.push(String(error.message).slice(0, 600)))
    }
    expect(failed).toEqual([])
    await server.end()
  },
  900_000,
)

const FOLLOWERS = 500

it("S3 streams that are opened by the thousand, resumed from the beginning, or of many changes delay no other request", async () => {
  const server = await serveProbed("SQLite")
  const { post } = server
  const { port } = new URL(server.url)
  /** Resolves when its first bytes have arrived; it is read until the test ends. */
  const follow = (path: string, lastId?: string) =>
    new Promise<void>((resolve, reject) => {
      const socket = connect(Number(port), "127.0.0.1")
      onTestFinished(() => void socket.destroy())
      socket.on("error", reject).once("data", () => resolve())
      const id = lastId === undefined ? "" : `Last-Event-ID: ${lastId}\r\n`
      socket.resume().write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${id}\r\n`)
    })
  const nodes = (count: number) =>
    Array.from({ length: count }, (_, i) => ({ id: `n${i}`, handler: "transform", config: { value: i } }))
  const wait = { id: "wait", handler: "wait_for_signal", config: { signal: "go" } }
  await post("/workflows", { name: "many", nodes: nodes(20) })
  await post("/workflows", { name: "large", nodes: [...nodes(15_000), wait] })
  await post("/workflows", { name: "some", nodes: [...nodes(400), wait] })
  const { job_id: large } = await post("/jobs?wait=1", { workflow: "large" })
  const { job_id: some } = await post("/jobs?wait=1", { workflow: "some" })
  const { facts } = JSON.parse(
    (await server.send({ method: "GET", path: `/jobs/${large}/facts?limit=1` })).text,
  )
  server.probe()
  for (const path of [`/jobs/${large}/stream`, `/jobs/${large}/facts?follow`, `/jobs/${large}/logs?follow`])
    await server.mustNotHoldUp(path, () => follow(path))
  await server.mustNotHoldUp("a resumed stream", () => follow(`/jobs/${large}/stream`, `${facts[0].seq}.0`))
  await server.mustNotHoldUp("the owner's stream", () => follow("/jobs/stream"))
  const jobs = Array(500).fill({ workflow: "many" })
  await server.mustNotHoldUp("10,000 changes", () => post("/jobs/bulk", { jobs }))
  for (const kind of ["logs", "facts"])
    await server.mustNotHoldUp(`${FOLLOWERS} streams of ${kind}`, async () => {
      for (let n = 0; n < FOLLOWERS; n += 50)
        await Promise.all(Array.from({ length: 50 }, () => follow(`/jobs/${some}/${kind}?follow`)))
    })
  await server.mustNotHoldUp("while they are open", () => post("/jobs?wait=5", { workflow: "many" }))
  await server.end()
}, 900_000)
