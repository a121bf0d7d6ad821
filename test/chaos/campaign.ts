/**
 * A fleet of real processes works while everything around it goes wrong, as a plan says that comes from the seed; then
 * all is mended, every job must end, every process must close in order, and the judge is asked. The operating system's
 * timing is not from the seed: it gives the same plan, not the same interleaving.
 */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import pg from "pg"
import { FakeProvider } from "../../src/testing/fake-provider.ts"
import { randomFrom } from "../crash/random.ts"
import { Clients } from "./clients.ts"
import { Faults, subjectOf } from "./faults.ts"
import { Fleet, quickSettings, SLOTS } from "./fleet.ts"
import { type ChaosVerdict, judge } from "./judge.ts"
import { describeFault, plan } from "./plan.ts"
import { filmScript, workload } from "./workload.ts"

export interface ChaosOptions {
  readonly seed: number
  /** For how long things go wrong. */
  readonly seconds: number
  readonly jobs: number
  /** Between two faults, on average. */
  readonly everySeconds?: number
  readonly print?: (line: string) => void
}

export interface ChaosReport extends ChaosVerdict {
  /** How often each fault was carried out. */
  readonly faults: ReadonlyMap<string, number>
  /** How many processes, services and connections the plan names. The first fault of each is always carried out. */
  readonly subjects: number
  /** Requests that clients had to repeat. */
  readonly requestsRepeated: number
  /** From the last fault until the last job ended. */
  readonly lastEndSeconds: number
}

/** Without a single job ending for so long, what is left is stuck. */
const STUCK_MS = 120_000

export async function chaos(options: ChaosOptions): Promise<ChaosReport> {
  const { seed, jobs } = options
  const folder = await mkdtemp(join(tmpdir(), "umbra-chaos-"))
  const random = randomFrom(seed + 1)
  let fleet: Fleet | null = null
  const door = () => (fleet === null ? null : `${random.pick(fleet.doors)}/webhooks/fake`)
  const fake = new FakeProvider({ limit: SLOTS, webhookUrl: door, script: () => filmScript(random) })
  await fake.listen()
  let isKept = false
  try {
    fleet = await Fleet.start({ folder, fake, settings: quickSettings })
    const work = workload(seed, jobs)
    const { faults, subjects, clients } = await goWrong(fleet, { ...options, folder, work })
    const mended = performance.now()
    const stuck = await allEnded(fleet.postgres.url)
    const lastEndSeconds = (performance.now() - mended) / 1000
    options.print?.(`the last job ended ${lastEndSeconds.toFixed(1)} s after the last fault`)
    const problems = [...stuck, ...clients.problems, ...(await closeAll(fleet))]
    await fake.played()
    const verdict = await judge({ postgresUrl: fleet.postgres.url, folder, workload: work, fake })
    const violations = [...problems, ...verdict.violations]
    isKept = violations.length > 0
    if (isKept) options.print?.(`what the processes wrote is in ${folder}`)
    return { ...verdict, violations, faults, subjects, requestsRepeated: clients.repeated, lastEndSeconds }
  } finally {
    await fleet?.stop()
    await fake.close()
    if (!isKept || options.print === undefined) await rm(folder, { recursive: true, force: true })
  }
}

async function goWrong(
  fleet: Fleet,
  options: ChaosOptions & { readonly folder: string; readonly work: ReturnType<typeof workload> },
) {
  const { seed, seconds, everySeconds = 1, folder, work, print } = options
  const unfinished = async () => (await unfinishedJobs(fleet.postgres.url)).length
  const clients = new Clients({
    ...{ seed, folder, unfinished, doors: fleet.doors, workload: work, spreadMs: seconds * 900 },
  })
  await clients.register()
  const faults = new Faults(fleet)
  const submitting = clients.submitAll()
  const began = performance.now()
  const steps = plan(seed, { ms: seconds * 1000, everyMs: everySeconds * 1000 })
  for (const { atMs, fault } of steps) {
    await delay(Math.max(0, began + atMs - performance.now()))
    const isBegun = faults.begin(fault)
    print?.(
      `${((performance.now() - began) / 1000).toFixed(1)} s, ${clients.acknowledged} jobs: ${describeFault(fault)}${isBegun ? "" : " (skipped)"}`,
    )
  }
  await faults.over()
  await submitting
  const subjects = new Set(steps.map(({ fault }) => subjectOf(fault))).size
  return { faults: faults.done, subjects, clients }
}

/** Answers what is stuck. */
async function allEnded(postgresUrl: string): Promise<string[]> {
  let left = Number.POSITIVE_INFINITY
  let since = performance.now()
  for (;;) {
    const found = await unfinishedJobs(postgresUrl)
    if (found.length === 0) return []
    if (found.length < left) since = performance.now()
    left = Math.min(left, found.length)
    if (performance.now() - since > STUCK_MS)
      return found.map(({ id, status }) => `job ${id} is stuck, ${status}`)
    await delay(250)
  }
}

/** Those that have ended and have somebody to tell included. */
async function unfinishedJobs(postgresUrl: string): Promise<{ id: string; status: string }[]> {
  const client = new pg.Client(postgresUrl)
  client.on("error", () => {})
  await client.connect()
  try {
    const unfinished = "finished_at is null or wake_at is not null"
    return (await client.query(`select id, status from umbra.jobs where ${unfinished}`)).rows
  } finally {
    await client.end()
  }
}

/** Nothing is wrong any more: whoever cannot end in order now has a problem. */
async function closeAll(fleet: Fleet): Promise<string[]> {
  const inOrder = await Promise.all(fleet.members.map(member => member.stop()))
  const problems: string[] = []
  for (const [at, member] of fleet.members.entries()) {
    problems.push(...member.problems)
    if (!inOrder[at]) problems.push(`${member.name} did not end in order`)
    if (!inOrder[at] || member.problems.length > 0) problems.push(await member.lastWords())
  }
  return problems
}
