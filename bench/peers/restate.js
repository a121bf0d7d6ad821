/**
 * Restate: a server of its own, from npm, with its default configuration, beside the service in this process. Steps are `ctx.run`, side
 * by side with `RestatePromise.all`; the bulk is sent one way.
 */
import { spawn } from "node:child_process"
import { createRequire } from "node:module"
import { createServer } from "node:net"
import { arch, platform } from "node:os"
import { join as path } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import * as restate from "@restatedev/restate-sdk"
import { connect } from "@restatedev/restate-sdk-clients"
import { add, CHAIN, FAN, item, join, numbers } from "./steps.js"
import { Waiting } from "./waiting.js"

export const packages = [
  "@restatedev/restate-server",
  "@restatedev/restate-sdk",
  "@restatedev/restate-sdk-clients",
]

const START_MS = 60_000
const SENDERS = 100

async function fanOf(ctx, x, width) {
  const values = await restate.RestatePromise.all(
    numbers(width).map(k => ctx.run(`item ${k}`, () => item(x, k))),
  )
  return ctx.run("join", () => join(values))
}

export async function open({ folder, width }) {
  const waiting = new Waiting()
  const handlers = {
    single: (ctx, x) => ctx.run("add", () => add(x)),
    async chain(ctx, x) {
      let value = x
      for (let k = 0; k < CHAIN; k++) {
        const before = value
        value = await ctx.run(`add ${k}`, () => add(before))
      }
      return value
    },
    fan: async (ctx, x) => fanOf(ctx, await ctx.run("first", () => add(x)), FAN),
    wide: (ctx, x) => fanOf(ctx, x, width),
    async sent(ctx, x) {
      const value = await ctx.run("add", () => add(x))
      waiting.end(x, value)
      return value
    },
  }
  const steps = restate.service({ name: "steps", handlers })
  const [servicePort, ingressPort, adminPort, nodePort] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ]
  await restate.serve({ services: [steps], port: servicePort })
  const server = startServer({ folder, ingressPort, adminPort, nodePort })
  const admin = `http://127.0.0.1:${adminPort}`
  await until(async () => (await fetch(`${admin}/health`)).ok)
  const answer = await fetch(`${admin}/deployments`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ uri: `http://127.0.0.1:${servicePort}` }),
  })
  if (!answer.ok) throw new Error(`the service was not registered: ${await answer.text()}`)
  const ingress = connect({ url: `http://127.0.0.1:${ingressPort}` })
  const client = ingress.serviceClient({ name: "steps" })
  const sender = ingress.serviceSendClient({ name: "steps" })
  return {
    configuration: `server with its defaults; bulk: one-way calls from ${SENDERS} senders`,
    run: (shape, x) => client[shape](x),
    runAll(xs) {
      const results = Promise.all(xs.map(x => waiting.for(x)))
      const remaining = xs.values()
      const lane = async () => {
        for (const x of remaining) await sender.sent(x)
      }
      return { accepted: Promise.all(Array.from({ length: SENDERS }, lane)), results }
    },
    async recorded() {
      const ended = "select id from sys_invocation where status = 'completed'"
      const rows = await query(
        admin,
        `select count(*) as steps from sys_journal where entry_type = 'Notification: Run' and id in (${ended})`,
      )
      return { steps: rows[0].steps }
    },
    async close() {
      server.kill("SIGKILL")
    },
  }
}

function startServer({ folder, ingressPort, adminPort, nodePort }) {
  const require = createRequire(import.meta.url)
  const program = require.resolve(`@restatedev/restate-server-${platform()}-${arch()}/bin/restate-server`)
  const address = port => `127.0.0.1:${port}`
  return spawn(program, ["--base-dir", path(folder, "restate")], {
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      ...process.env,
      RESTATE_BIND_ADDRESS: address(nodePort),
      RESTATE_ADVERTISED_ADDRESS: `http://${address(nodePort)}`,
      RESTATE_INGRESS__BIND_ADDRESS: address(ingressPort),
      RESTATE_ADMIN__BIND_ADDRESS: address(adminPort),
      RESTATE_LOG_FILTER: "error",
      // Nothing outside of this machine.
      RESTATE_DISABLE_TELEMETRY: "true",
      DO_NOT_TRACK: "1",
      RESTATE_ADMIN__DISABLE_WEB_UI: "true",
    },
  })
}

async function query(admin, text) {
  const answer = await fetch(`${admin}/query`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json" },
    body: JSON.stringify({ query: text }),
  })
  if (!answer.ok) throw new Error(await answer.text())
  return (await answer.json()).rows
}

async function until(isSo) {
  const end = performance.now() + START_MS
  while (!(await isSo().catch(() => false))) {
    if (performance.now() > end) throw new Error("the server did not start")
    await delay(100)
  }
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once("error", reject)
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}
