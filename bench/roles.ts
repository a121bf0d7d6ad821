/** The cost of a separate API process: submissions to an engine, and through a process without one. */
import { once } from "node:events"
import { Connection, requestText } from "./connection.ts"
import { drive, type Round, startServe } from "./server.ts"
import { databaseUrl } from "./services.ts"

/** Alternating rounds: other load of the machine affects both. */
const ROUNDS = 5

const workflow = { name: "bench", nodes: [{ id: "n", handler: "transform", config: { value: 1 } }] }
const job = { workflow: "bench", input: { a: 1 } }
const submit = requestText("POST", "/jobs", job)
const toTheEnd = requestText("POST", "/jobs?wait=30", job)
const kinds = [
  { name: "submit, one in flight", request: submit, inFlight: 1 },
  { name: "submit, 100 in flight", request: submit, inFlight: 100 },
  { name: "submit to COMPLETED, one in flight", request: toTheEnd, inFlight: 1 },
  { name: "submit to COMPLETED, 100 in flight", request: toTheEnd, inFlight: 100 },
] as const

export async function roles(): Promise<void> {
  const { url, drop } = await databaseUrl()
  const store = ["--database-url", url, "--set", "rate_limit=never"]
  const engine = await startServe([...store, "--roles", "api,engine,worker"])
  const front = await startServe([...store, "--roles", "api"])
  const open = (port: number) => Promise.all(Array.from({ length: 100 }, () => Connection.open(port)))
  const [local, through] = [await open(engine.port), await open(front.port)]
  await local[0]!.send(requestText("POST", "/workflows", workflow))
  await untilTaken(through[0]!)
  const seconds = Math.max(0.5, 2 * Number(process.env.BENCH_SCALE ?? 1))
  for (const connections of [local, through]) await drive(connections, submit, seconds)
  console.log("\nPostgreSQL: to the engine, and through a process without one")
  for (const { name, request, inFlight } of kinds) {
    const rounds: { readonly local: Round; readonly through: Round }[] = []
    for (let round = 0; round < ROUNDS; round++)
      rounds.push({
        local: await drive(local.slice(0, inFlight), request, seconds),
        through: await drive(through.slice(0, inFlight), request, seconds),
      })
    report(name, rounds)
  }
  for (const connection of [...local, ...through]) connection.close()
  for (const { child } of [front, engine]) {
    child.kill("SIGTERM")
    await once(child, "exit")
  }
  await drop()
}

/** The API process learns of the engine with its next heartbeat. */
async function untilTaken(connection: Connection): Promise<void> {
  while ((await connection.send(submit)) >= 300) await new Promise(resolve => setTimeout(resolve, 100))
}

/** The median round by ratio: both halves of it were measured side by side. */
function report(name: string, rounds: readonly { readonly local: Round; readonly through: Round }[]): void {
  const ratio = ({ local, through }: (typeof rounds)[number]) => local.perSecond / through.perSecond
  const { local, through } = [...rounds].sort((a, b) => ratio(a) - ratio(b))[rounds.length >> 1]!
  const text = ({ perSecond, p50, p99 }: Round) =>
    `${Math.round(perSecond).toLocaleString("en").padStart(6)}/s p50 ${p50.toFixed(1)} p99 ${p99.toFixed(1)} ms`
  const times = (local.perSecond / through.perSecond).toFixed(1)
  console.log(`  ${name.padEnd(36)} ${text(local)}   through: ${text(through)}   ${times} ×`)
}
