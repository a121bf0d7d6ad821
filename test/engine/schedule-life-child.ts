/**
 * A process of its own that leads a schedule through its life, under a clock of its own, and kills itself before or after its
 * nth write, or its first write of a kind. It prints the tick and the job of each run, and what it was about to write when it died.
 */
import { writeSync } from "node:fs"
import { openJournal } from "../../src/journal/open.ts"
import type { ScheduleRequest } from "../../src/schedule/document.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"

const MINUTE = 60_000
const [location = "", name = "", start = "", moment = "before", at = "1"] = process.argv.slice(2)
const print = (line: string) => void writeSync(1, `${line}\n`)
const clock = new VirtualClock({ start: Date.parse(start) })

const journal = await openJournal(location)
let writes = 0
function fatal<T extends object, K extends keyof T>(
  target: T,
  verb: K,
  what: (given: never) => string,
): void {
  const write = (target[verb] as (given: never) => Promise<unknown>).bind(target)
  const replaced = async (given: never) => {
    const isLast = ++writes === Number(at) || what(given) === at
    if (isLast) print(`dies ${what(given)}`)
    if (isLast && moment === "before") process.kill(process.pid, "SIGKILL")
    const result = await write(given)
    if (isLast) process.kill(process.pid, "SIGKILL")
    return result
  }
  target[verb] = replaced as T[K]
}
fatal(journal, "append", ({ fires = [] }: { readonly fires?: readonly { readonly outcome: string }[] }) =>
  fires.length === 0 ? "append" : fires.map(({ outcome }) => outcome).join("+"),
)
fatal(journal.schedules, "create", () => "create")
fatal(journal.schedules, "change", ({ pausedAt }: { readonly pausedAt: number | null }) =>
  pausedAt === null ? "change" : "pause",
)
fatal(journal.schedules, "addFire", ({ kind }: { readonly kind: string }) => kind.split(":")[0]!)

/** Runs that wait until they are released. */
let held: (() => void)[] = []
const witness = defineHandler({
  name: "witness",
  run: (config, { jobId, signal }) => {
    const { tick, hold } = config as { tick: string; hold: boolean }
    print(`runs ${tick} ${jobId}`)
    if (!hold) return
    return new Promise<void>(resolve => {
      held.push(resolve)
      signal.addEventListener("abort", () => resolve())
    })
  },
})
const umbra = await openUmbra(journal, {
  ...{ handlers: [witness], clock, engine: { beatSeconds: 1, leaseSeconds: 60 } },
})

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) {
    clock.advance(10)
    await new Promise(resolve => setTimeout(resolve, 1))
  }
}

async function tick(): Promise<void> {
  const next = Math.floor(clock.now() / MINUTE + 1) * MINUTE
  while (clock.now() < next) {
    clock.advance(Math.min(5000, next - clock.now()))
    await new Promise(resolve => setImmediate(resolve))
  }
}

const fires = async () => (await umbra.schedules.fires(name)).fires
const newest = (outcome: string) => until(async () => (await fires())[0]?.outcome === outcome)
const count = (given: number) =>
  until(async () => (await fires()).filter(({ outcome }) => outcome === "started").length >= given)
const ended = (given: string) =>
  until(async () =>
    (await umbra.jobs({ statuses: ["PENDING", "QUEUED", "DISPATCHING", "PROCESSING"] })).every(
      ({ job_id }) => job_id !== given,
    ),
  )
function release(): void {
  const all = held
  held = []
  for (const resolve of all) resolve()
}

const put = (document: Partial<ScheduleRequest>, hold: boolean) =>
  umbra.schedules.put(name, {
    ...{ workflow: "seen", every: "1m", catch_up: "all" },
    ...{ input: { tick: "{{ schedule.time }}", hold } },
    ...document,
  })

await put({ overlap: "allow" }, false)
await tick()
await count(1)
await ended((await fires())[0]!.job_id!)
await put({ overlap: "skip" }, true)
await tick()
await until(() => held.length === 1)
await tick()
await newest("skipped")
await put({ overlap: "queue_one" }, true)
await tick()
await newest("queued")
release()
await count(3)
await until(() => held.length === 1)
await put({ overlap: "cancel_running" }, true)
await tick()
await count(4)
await until(() => held.length === 1 || held.length === 2)
print("pauses")
await umbra.schedules.pause(name)
await tick()
await tick()
await umbra.schedules.resume(name)
release()
await tick()
await count(5)
await until(() => held.length === 1)
release()
await umbra.schedules.run(name)
const range = {
  from: new Date(Date.parse(start) - 3 * MINUTE).toISOString(),
  to: new Date(Date.parse(start)).toISOString(),
}
const backfill = await umbra.schedules.backfill(name, { ...range, rate: 1000 })
await until(() => {
  release()
  return umbra.bulk.get(backfill.bulk_id).then(({ status }) => status === "COMPLETED")
})
print(`lives ${writes}`)
process.kill(process.pid, "SIGKILL")
