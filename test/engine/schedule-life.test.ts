/** SIGKILL at every write of a schedule's life: an outside witness sees one job per tick, and no tick is lost. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { expect, it, type TestContext } from "vitest"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import { randomFrom } from "../crash/random.ts"
import { stores } from "../server/stage.ts"
import { programArguments } from "../support/program.ts"
import { seed } from "../support/seed.ts"
import { handler } from "./stage.ts"

const MINUTE = 60_000
const FIRST = Date.parse("2026-11-17T12:00:30Z")
/** A life is shorter than this: then the next process takes over. */
const LIFE_MS = 15 * MINUTE
const script = fileURLToPath(new URL("./schedule-life-child.ts", import.meta.url))
const engine = { beatSeconds: 1, leaseSeconds: 60 }
const workflow = {
  name: "seen",
  nodes: [{ id: "a", handler: "witness", config: { tick: "{{ input.tick }}", hold: "{{ input.hold }}" } }],
}

/** Ticks with the jobs that ran for them. */
type Seen = Map<string, Set<string>>

interface Life {
  /** What it was about to write when it died; null: it has written everything. */
  diedAt: string | null
  hasPaused: boolean
  readonly seen: Seen
}

type AtEnd = TestContext["onTestFinished"]

async function live(atEnd: AtEnd, ...args: string[]): Promise<Life> {
  const child = spawn(process.execPath, [...programArguments(script), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  atEnd(() => void child.kill("SIGKILL"))
  const exit = once(child, "exit")
  const life: Life = { diedAt: null, hasPaused: false, seen: new Map() }
  for await (const line of createInterface({ input: child.stdout })) {
    const [verb, first = "", job = ""] = line.split(" ")
    if (verb === "runs") see(life.seen, first, job)
    if (verb === "dies") life.diedAt = first
    if (verb === "pauses") life.hasPaused = true
  }
  const [, signal] = await exit
  expect(signal).toBe("SIGKILL")
  return life
}

function see(seen: Seen, tick: string, job: string): void {
  seen.set(tick, (seen.get(tick) ?? new Set()).add(job))
}

/** The next process: all ticks are caught up, the schedule is paused, and all jobs end. */
async function recovered(location: string, name: string, { seen }: Life, start: number): Promise<Umbra> {
  const clock = new VirtualClock({ start: start + LIFE_MS })
  const witness = handler("witness", ({ tick }: { tick: string }, { jobId }) => see(seen, tick, jobId))
  const open = () => openUmbra(location, { handlers: [witness], clock, engine })
  let umbra = await open()
  const until = async (isSo: () => Promise<boolean>) => {
    while (!(await isSo())) {
      clock.advance(2000)
      await new Promise(resolve => setTimeout(resolve, 2))
    }
  }
  const exists = (await umbra.schedules.list({ limit: 1000 })).schedules.some(each => each.name === name)
  if (exists) {
    await umbra.schedules.resume(name)
    const from = Math.floor(clock.now() / MINUTE) * MINUTE
    await until(async () => Date.parse((await umbra.schedules.fires(name)).fires[0]?.tick ?? "1970") > from)
    await umbra.schedules.pause(name)
    // A tick that was decided before the pause may be stored after it.
    await umbra.close()
    umbra = await open()
  }
  const unfinished = ["PENDING", "QUEUED", "DISPATCHING", "PROCESSING"] as const
  await until(async () => (await umbra.jobs({ statuses: [...unfinished] })).length === 0)
  return umbra
}

async function judge(umbra: Umbra, name: string, { seen, hasPaused }: Life): Promise<void> {
  const { fires } = await umbra.schedules.fires(name, { limit: 1000 })
  expect(fires.filter(({ outcome }) => outcome === "queued" || outcome === "missed")).toEqual([])
  const ticks = fires.filter(({ kind }) => kind === "tick").map(({ tick }) => Date.parse(tick))
  const gaps = ticks.slice(1).filter((tick, index) => tick !== ticks[index]! - MINUTE)
  expect(gaps.length).toBeLessThanOrEqual(hasPaused ? 1 : 0)
  const all = await umbra.jobs({ limit: 10_000 })
  const own = all.filter(({ schedule }) => schedule?.name === name)
  const started = fires.filter(({ kind, outcome }) => kind !== "run" && outcome === "started")
  // Each tick has its job, and each job its tick.
  expect(own.map(({ job_id, schedule }) => [schedule!.tick, job_id]).sort()).toEqual(
    started.map(({ tick, job_id }) => [tick, job_id]).sort(),
  )
  const jobs = new Map(started.map(({ tick, job_id }) => [tick, job_id]))
  const runs = new Set(
    all.filter(({ schedule, workflow }) => schedule == null && workflow === "seen").map(job => job.job_id),
  )
  for (const [tick, ids] of seen) {
    expect([...ids], tick).toHaveLength(1)
    const [id] = ids
    if (!runs.has(id!)) expect(id, tick).toBe(jobs.get(tick))
  }
  for (const job of own)
    if (job.status === "COMPLETED") expect(seen.has(job.schedule!.tick)).toBe(true)
    else expect(job.status).toBe("CANCELLED")
  for (const { job_id } of own)
    expect(await umbra.queries.verify(await umbra.queries.row(job_id))).toEqual([])
}

it.concurrent.for(["SQLite", "PostgreSQL"])(
  `%s: one job per tick, at whichever write of its life a process dies (seed ${seed})`,
  { timeout: 900_000 },
  async (kind, { onTestFinished: atEnd }) => {
    const { location, remove } = await stores[kind]!()
    atEnd(() => remove())
    const random = randomFrom(seed)
    const first = await openUmbra(location, { handlers: [handler("witness", () => {})], engine })
    await first.register(workflow)
    await first.close()
    const deaths = new Set<string>()
    let lives = 0
    /** Returns what it was about to write when it died. */
    const liveUntil = async (write: string): Promise<string | null> => {
      const name = `s${++lives}`
      const start = FIRST + lives * 4 * LIFE_MS
      const moment = random.pick(["before", "after"] as const)
      const life = await live(atEnd, location, name, new Date(start).toISOString(), moment, write)
      const umbra = await recovered(location, name, life, start)
      try {
        if ((await umbra.schedules.list({ limit: 1000 })).schedules.some(each => each.name === name))
          await judge(umbra, name, life)
        else expect(life.seen.size).toBe(0)
      } catch (error) {
        throw new Error(`${kind}, killed ${moment} write ${write} (${life.diedAt})`, { cause: error })
      } finally {
        await umbra.close()
      }
      return life.diedAt
    }
    for (let write = 1; ; write++) {
      const diedAt = await liveUntil(String(write))
      if (diedAt === null) break
      deaths.add(diedAt)
    }
    // Not each append can be told apart: ticks that come together share one. And what is one append in this life may be two in the
    // next one, so that counting passes over a write.
    const ticks = ["started", "skipped", "queued"]
    for (const what of ["create", "change", "pause", "append", ...ticks, "run", "backfill"])
      if (!deaths.has(what)) expect(await liveUntil(what)).toBe(what)
  },
)
