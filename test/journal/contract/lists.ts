import { describe, expect, it } from "vitest"
import { type JobStatus, jobHasEnded, jobStatuses } from "../../../src/core/states.ts"
import { fingerprint } from "../../../src/journal/fingerprint.ts"
import type { JobFilter, JobPage, Journal, ListBound, NewJob } from "../../../src/journal/port/journal.ts"
import { randomFrom } from "../../crash/random.ts"
import { seed } from "../../support/seed.ts"
import { batch, change, fact, type Held, hold, newJob, type Stage } from "../fixture.ts"

/** A machine that is slow must not end a page. */
const UNHURRIED = { ms: 600_000 }
const T0 = Date.UTC(2026, 0, 1)

const owners = ["alice", "bob", "carol"]
const workflows = ["order", "invoice", "rare"]
const ends: readonly JobStatus[] = ["COMPLETED", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED"]
const errors = [
  {
    code: "E405",
    message: 'Connection to "10.0.0.7" refused after 30 s',
    words: ["connection", "to", "refused", "after"],
  },
  { code: "E405", message: "Connection reset by peer 77", words: ["connection", "reset", "by", "peer"] },
  { code: "E501", message: "Disk full", words: ["disk", "full"] },
]

export function listsContract(stage: () => Stage): void {
  describe("a list of jobs", () => {
    it("S2 has exactly the jobs that match, for any filters, page by page, however early a page ends", async () => {
      const { journal, peer } = stage()
      const world = await populate([journal, peer])
      for (let i = 0; i < 80; i++) await compare(world, i % 2 === 0 ? journal : peer, world.filter())
      // Each filter alone, and each with a status.
      for (const single of singles(world))
        for (const owner of ["alice", undefined])
          for (const statuses of [undefined, ["FAILED"] as const, ["COMPLETED", "PROCESSING"] as const])
            await compare(world, journal, { ...single, statuses, ...(owner === undefined ? {} : { owner }) })
    })

    it("S2 J17 is the same after retention, which removes the entries of jobs that are gone and no others", async () => {
      const { journal, peer } = stage()
      const world = await populate([journal, peer])
      const purge = async () => {
        let removed = 0
        for (let after = null as Parameters<Journal["purgeMarks"]>[0]["after"]; ; ) {
          const partitions = world.held.map(({ partition }) => partition)
          const step = await journal.purgeMarks({ partitions, before: T0 + 1e9, after, limit: 50 })
          removed += step.removed
          after = step.next
          if (after === null) return removed
        }
      }
      expect(await purge()).toBe(0)
      const gone = [...world.jobs.values()].filter(job => job.finishedAt !== null && world.random() < 0.7)
      const fences = world.held.map(({ partition, epoch }) => ({ partition, epoch }))
      await journal.purge({ fences, jobIds: gone.map(({ id }) => id), before: T0 + 1e10, limit: 1e6 })
      for (const { id } of gone) world.jobs.delete(id)
      expect(await purge()).toBeGreaterThan(0)
      expect(await purge()).toBe(0)
      for (let i = 0; i < 30; i++) await compare(world, journal, world.filter())
    })

    it("S2 ends after its bound with `next`, `scannedTo` and `complete`, and continues there", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const owner = "bounded"
      const jobs = Array.from({ length: 300 }, (_, i) =>
        newJob(held, i, {
          id: idAt(T0 + Math.floor(i / 3), held.partition, i),
          owner,
          createdAt: T0 + Math.floor(i / 3),
          status: i === 0 ? "CANCELLED" : "COMPLETED",
          finishedAt: T0 + 1000,
        }),
      )
      await append(journal, [held], jobs)
      // Nothing but the check of every job finds a job without a parent that has no mark of it.
      const filter = { owner, parentId: null, minDurationMs: 1023, createdFrom: T0, limit: 10 }
      const first = await journal.listJobs(
        { ...filter, statuses: ["CANCELLED"], workflow: "other" },
        UNHURRIED,
      )
      expect(first).toEqual({ jobs: [], next: null, scannedTo: null, complete: true })
      const early = await journal.listJobs({ ...filter, minDurationMs: 1001 }, { ...UNHURRIED, entries: 40 })
      expect(early).toMatchObject({ jobs: [], complete: false })
      expect(early.scannedTo).toBeGreaterThan(T0)
      expect(early.next! <= jobs.at(-40)!.id).toBe(true)
      expect(early.next! > jobs[100]!.id).toBe(true)
      const full = await journal.listJobs({ owner, limit: 10 }, UNHURRIED)
      expect(full).toMatchObject({ complete: true, next: jobs.at(-10)!.id })
      expect(full.jobs).toHaveLength(10)
    })
  })
}

interface World {
  readonly held: readonly Held[]
  readonly jobs: Map<string, NewJob>
  readonly begin: number
  readonly random: () => number
  pick<T>(list: readonly T[]): T
  filter(): Partial<JobFilter>
}

function idAt(time: number, partition: number, tail: number): string {
  const hex = time.toString(16).padStart(12, "0")
  return `${hex.slice(0, 8)}-${hex.slice(8)}-70${partition.toString(16).padStart(2, "0")}-8000-${tail.toString(16).padStart(12, "0")}`
}

let tails = 0
/** Each test has a day of its own: jobs of the others are in other buckets. */
let worlds = 0

/** Random jobs of two partitions, each through its own opening of the store: created, ended, retried, deleted. */
async function populate(journals: readonly Journal[]): Promise<World> {
  const { next: random, pick } = randomFrom(seed)
  const begin = T0 + 86_400_000 * ++worlds
  const held = [await hold(journals[0]!), await hold(journals[0]!)]
  const jobs = new Map<string, NewJob>()
  let counter = 0
  for (let round = 0; round < 16; round++) {
    const side = round % 2
    const [journal, of] = [journals[side]!, held[side]!]
    const created = Array.from({ length: Math.floor(random() * 30) }, () => randomJob(of, ++counter))
    const mine = [...jobs.values()].filter(({ partition }) => partition === of.partition)
    const changed = mine.filter(() => random() < 0.3).map(job => changedJob(job, ++counter, of))
    await append(journal, [of], created, changed)
    for (const job of [...created, ...changed]) jobs.set(job.id, job)
  }
  return { held, jobs, begin, random, pick, filter }

  function randomJob(of: Held, at: number): NewJob {
    const parent = random() < 0.2 && jobs.size > 0 ? pick([...jobs.values()]) : null
    const isChild = parent !== null && parent.partition === of.partition
    // Some share a bucket, some are hours apart.
    const time = begin + Math.floor(random() * 40) * (random() < 0.5 ? 1 : 3_600_000 / 4)
    const id = isChild
      ? `${parent.id.slice(0, 18)}-8000-${(++tails).toString(16).padStart(12, "0")}`
      : idAt(time, of.partition, ++tails)
    const idMs = Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)
    const createdAt =
      random() < 0.7 ? idMs : idMs + Math.floor((random() - 0.2) * pick([500, 90_000, 40_000_000]))
    const labels = pick<Record<string, string> | null>([
      null,
      null,
      { team: pick(["a", "b"]) },
      { team: pick(["a", "b"]), 'odd, "key"': "x}\\" },
      Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`l${i}`, pick(["a", "b"])])),
    ])
    const job = newJob(of, at, {
      id,
      owner: pick(["alice", "alice", ...owners]),
      workflow: pick(["order", "order", "order", "invoice", random() < 0.1 ? "rare" : "invoice"]),
      workflowVersion: 1 + Math.floor(random() * 3),
      parentId: isChild ? parent.id : null,
      labels: labels === null ? null : JSON.stringify(labels),
      createdAt,
      updatedAt: createdAt,
    })
    return random() < 0.3 ? { ...job, ...ended(job) } : job
  }

  function ended(job: NewJob): Partial<NewJob> {
    const status = pick(ends)
    const finishedAt = job.createdAt + Math.floor(random() * pick([5, 2_000, 5_000_000]))
    if (status !== "FAILED") {
      // Some were delayed, and some of these ended before their start time.
      const error = pick([null, { usage: { tokens: 1 } }, { start_at: job.createdAt + pick([1, 1_500]) }])
      return { status, finishedAt, error: error && JSON.stringify(error) }
    }
    const { code, message } = pick(errors)
    const error = { code, message, node: pick(["a", "b"]) }
    return { status, finishedAt, error: JSON.stringify(error), fingerprint: fingerprint(error) }
  }

  function changedJob(job: NewJob, at: number, of: Held): NewJob {
    const seq = of.seq(at)
    if (job.status === "DELETED") return { ...job, seq }
    if (!jobHasEnded(job.status))
      return { ...job, seq, ...(random() < 0.6 ? ended(job) : { status: "PREVIEW" }) }
    if (random() < 0.4) return { ...job, seq, status: "DELETED" }
    const restarted = { status: "QUEUED", finishedAt: null, error: null, fingerprint: null } as const
    return job.status === "COMPLETED" ? { ...job, seq } : { ...job, seq, ...restarted }
  }

  function filter(): Partial<JobFilter> {
    const maybe = <T>(value: () => T, chance = 0.3): T | undefined =>
      random() < chance ? value() : undefined
    const all = [...jobs.values()]
    const workflow = maybe(() => pick([...workflows, "none"]))
    const from = pick(all).createdAt
    const owner = maybe(() => pick([...owners, "nobody"]), 0.8)
    const parent = maybe(() => pick([null, pick(all).parentId ?? pick(all).id]), 0.15)
    return {
      ...(owner === undefined ? {} : { owner }),
      statuses: maybe(() => jobStatuses.filter(() => random() < 0.3), 0.5),
      workflow,
      version: workflow === undefined ? undefined : maybe(() => 1 + Math.floor(random() * 3), 0.5),
      labels: maybe(() =>
        pick([{ team: "a" }, { team: "b", 'odd, "key"': "x}\\" }, { l3: "a" }, { team: "c" }]),
      ),
      errorCode: maybe(() => pick(["E405", "E501", "E999"]), 0.15),
      fingerprint: maybe(() => pick(all).fingerprint ?? "none", 0.15),
      errorText: maybe(() => pick(["connection", "Peer reset", "disk 5 full", "refused disk"]), 0.15),
      minDurationMs: maybe(() => pick([1, 1_000, 1_500, 1_000_000]), 0.2),
      createdFrom: maybe(() => from),
      createdBefore: maybe(() => pick([from + 60_000, pick(all).createdAt, from + 86_400_000])),
      ...(parent === undefined ? {} : { parentId: parent }),
      deleted: random() < 0.3,
    }
  }
}

function singles({ jobs, begin }: World): Partial<JobFilter>[] {
  const failed = [...jobs.values()].find(job => job.fingerprint !== null)!
  const child = [...jobs.values()].find(job => job.parentId !== null)!
  return [
    {},
    { workflow: "rare" },
    { workflow: "order", version: 2 },
    { labels: { team: "a" } },
    { errorCode: "E405" },
    { fingerprint: failed.fingerprint! },
    { errorText: "connection refused" },
    { minDurationMs: 2_000 },
    { parentId: child.parentId! },
    { createdFrom: begin, createdBefore: begin + 60_000 },
  ]
}

async function append(
  journal: Journal,
  held: readonly Held[],
  created: readonly NewJob[],
  changed: readonly NewJob[] = [],
): Promise<void> {
  const facts = [...created, ...changed].map(job => ({ ...fact(held[0]!, 0), seq: job.seq, jobId: job.id }))
  const changedJobs = changed.map(job => change(job, {}))
  await journal.append(batch(held, { facts, newJobs: created, changedJobs }))
}

async function compare(world: World, journal: Journal, filter: Partial<JobFilter>): Promise<void> {
  const limit = world.pick([1, 3, 10, 1000])
  const bound = { ...UNHURRIED, entries: world.pick([15, 60, 400, 20_000]) }
  const expected = [...world.jobs.values()]
    .filter(job => isMatch(job, filter))
    .sort((a, b) => (a.id < b.id ? 1 : -1))
  const found = await readAll(journal, { ...filter, limit }, bound)
  // Jobs of other tests of this store are not in `expected`.
  const ours = found.filter(({ id }) => world.jobs.has(id))
  expect(
    ours.map(({ id }) => id),
    JSON.stringify({ filter, limit, bound }),
  ).toEqual(expected.map(({ id }) => id))
  expect(ours).toEqual(expected)
}

async function readAll(journal: Journal, filter: JobFilter, bound: ListBound) {
  const found: JobPage["jobs"][number][] = []
  for (let after = filter.after; ; ) {
    const page = await journal.listJobs({ ...filter, after }, bound)
    expect(page.jobs.length).toBeLessThanOrEqual(filter.limit)
    expect(page.complete).toBe(page.next === null || page.jobs.length === filter.limit)
    expect(page.scannedTo === null).toBe(page.next === null)
    found.push(...page.jobs)
    if (page.next === null) return found
    if (after !== undefined) expect(page.next < after).toBe(true)
    after = page.next
  }
}

interface StoredError {
  readonly code?: string
  readonly message?: string
  readonly start_at?: number
}

/** What the filters mean, without marks. */
function isMatch(job: NewJob, filter: Partial<JobFilter>): boolean {
  const { owner, statuses, workflow, version, labels = {}, errorCode, errorText } = filter
  const { minDurationMs, createdFrom, createdBefore, parentId } = filter
  const error = job.error === null ? null : (JSON.parse(job.error) as StoredError)
  const words = errors.find(({ message }) => message === error?.message)?.words ?? []
  const has: Record<string, string> = job.labels === null ? {} : JSON.parse(job.labels)
  return [
    owner === undefined || job.owner === owner,
    statuses === undefined || statuses.includes(job.status),
    filter.deleted || job.status !== "DELETED",
    workflow === undefined || job.workflow === workflow,
    version === undefined || job.workflowVersion === version,
    Object.entries(labels).every(([name, value]) => has[name] === value),
    errorCode === undefined || error?.code === errorCode,
    filter.fingerprint === undefined || job.fingerprint === filter.fingerprint,
    errorText === undefined ||
      errorText
        .toLowerCase()
        .split(" ")
        .filter(word => !/\d/.test(word))
        .every(word => words.includes(word)),
    minDurationMs === undefined ||
      (job.finishedAt !== null &&
        Math.max(0, job.finishedAt - (error?.start_at ?? job.createdAt)) >= minDurationMs),
    createdFrom === undefined || job.createdAt >= createdFrom,
    createdBefore === undefined || job.createdAt < createdBefore,
    parentId === undefined || job.parentId === parentId,
  ].every(Boolean)
}
