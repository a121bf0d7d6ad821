/** SIGKILL before and after appends with a tick: an outside witness sees one job per tick, and no tick is lost. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { expect, it, onTestFinished } from "vitest"
import { stores } from "../server/stage.ts"
import { programArguments } from "../support/program.ts"
import { handler, open, until } from "./stage.ts"

const script = fileURLToPath(new URL("./schedule-child.ts", import.meta.url))
const engine = { beatSeconds: 0.1, leaseSeconds: 1 }

/** Ticks with the jobs that ran for them. */
type Seen = Map<string, Set<string>>

async function killed(seen: Seen, ...args: string[]): Promise<void> {
  const child = spawn(process.execPath, [...programArguments(script), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  onTestFinished(() => void child.kill("SIGKILL"))
  const exit = once(child, "exit")
  for await (const line of createInterface({ input: child.stdout })) {
    const [tick = "", job = ""] = line.split(" ")
    see(seen, tick, job)
  }
  const [, signal] = await exit
  expect(signal).toBe("SIGKILL")
}

function see(seen: Seen, tick: string, job: string): void {
  seen.set(tick, (seen.get(tick) ?? new Set()).add(job))
}

it.each(["SQLite", "PostgreSQL"])(
  "%s: one job per tick, whenever processes die",
  { timeout: 240_000 },
  async kind => {
    const { location, remove } = await stores[kind]!()
    onTestFinished(() => remove())
    const seen: Seen = new Map()
    const witness = handler("witness", ({ tick }: { tick: string }, { jobId }) => see(seen, tick, jobId))
    const first = await open({ at: location, handlers: [witness], engine })
    const config = { tick: "{{ input.tick }}" }
    await first.register({ name: "seen", nodes: [{ id: "a", handler: "witness", config }] })
    await first.schedules.put("s", {
      ...{ workflow: "seen", every: "1s", input: { tick: "{{ schedule.time }}" } },
      ...{ overlap: "allow", catch_up: "all" },
    })
    await until("it has fired", async () => (await first.schedules.fires("s")).fires.length > 0)
    await first.close()
    for (const [moment, append] of [
      ["before", "1"],
      ["after", "1"],
      ["before", "2"],
      ["after", "3"],
    ] as const)
      await killed(seen, location, moment, append)
    const last = await open({ at: location, handlers: [witness], engine })
    const now = new Date().toISOString()
    const ticks = async () => (await last.schedules.fires("s", { limit: 1000 })).fires
    await until("it has caught up", async () => (await ticks())[0]!.tick >= now)
    await last.schedules.pause("s")
    // A tick that was decided before the pause may be stored after it.
    await last.close()
    const reader = await open({ at: location, handlers: [witness], engine })
    const fires = [...(await reader.schedules.fires("s", { limit: 1000 })).fires].reverse()
    expect(fires.filter(({ outcome }) => outcome !== "started")).toEqual([])
    const times = fires.map(({ tick }) => Date.parse(tick))
    expect(times).toEqual(times.map((_, index) => times[0]! + index * 1000))
    for (const { job_id } of fires) expect((await reader.wait(job_id!)).status).toBe("COMPLETED")
    const jobs = await reader.jobs({ limit: 1000 })
    expect(jobs.map(({ job_id }) => job_id).sort()).toEqual(fires.map(({ job_id }) => job_id!).sort())
    expect([...seen].map(([tick, ids]) => [tick, [...ids]]).sort()).toEqual(
      fires.map(({ tick, job_id }) => [tick, [job_id]]),
    )
    for (const { job_id } of jobs)
      expect(await reader.queries.verify(await reader.queries.row(job_id))).toEqual([])
  },
)
