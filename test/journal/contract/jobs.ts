import { describe, expect, it } from "vitest"
import type { JobPage } from "../../../src/journal/port/journal.ts"
import { batch, change, hold, newId, newJob, type Stage, store } from "../fixture.ts"

/** A slow machine must not end a page early. */
const UNHURRIED = { ms: 60_000 }

export function jobsContract(stage: () => Stage): void {
  describe("jobs", () => {
    it("are listed newest first, page by page, each once", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const jobs = Array.from({ length: 7 }, (_, counter) => newJob(held, counter, { owner: "paging" }))
      await store(journal, held, jobs)
      const seen: string[] = []
      for (let after: string | undefined; ; ) {
        const page: JobPage = await journal.listJobs({ owner: "paging", limit: 3, after }, UNHURRIED)
        seen.push(...page.jobs.map(job => job.id))
        expect(page).toMatchObject({ complete: true, next: page.jobs.length < 3 ? null : seen.at(-1) })
        if (page.next === null) break
        after = page.next
      }
      expect(seen).toEqual(jobs.map(job => job.id).reverse())
    })

    it("S3 returns which of an owner's or submitter's jobs have not ended: known ones, and those above an id; and which have", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const mine = (counter: number, over = {}) => newJob(held, counter, { owner: "counting", ...over })
      const ended = { status: "CANCELLED", finishedAt: 5_000 } as const
      const by = (submittedBy: string) => ({ submittedBy })
      const [old, oldEnded, newerEnded] = [mine(1), mine(2, ended), mine(4, { ...ended, ...by("a") })]
      const [newer, newest] = [mine(3, by("a")), mine(5, by("b"))]
      const foreign = newJob(held, 6, { owner: "counting-not", ...by("a") })
      await store(journal, held, [old, oldEnded, newer, newerEnded, newest, foreign])
      const look = async (known: readonly string[], after: string, limit = 10) =>
        (await journal.unfinishedJobs({ owner: "counting", known, after, limit })).sort()
      const lookBy = (submittedBy: string, known: readonly string[], after: string) =>
        journal.unfinishedJobs({ owner: "counting", submittedBy, known, after, limit: 10 })
      const nothing = "00000000-0000-0000-0000-000000000000"
      expect(await look([], nothing)).toEqual([old.id, newer.id, newest.id])
      expect(await look([], oldEnded.id)).toEqual([newer.id, newest.id])
      const known = [old.id, oldEnded.id, newer.id, foreign.id, newId()]
      expect(await look(known, oldEnded.id)).toEqual([old.id, newer.id, newest.id])
      expect(await look([old.id], nothing, 1)).toEqual([old.id, newest.id])
      expect(await lookBy("a", [], nothing)).toEqual([newer.id])
      expect(await lookBy("b", [], nothing)).toEqual([newest.id])
      expect(await lookBy("a", [...known, newerEnded.id, newest.id], newest.id)).toEqual([newer.id])
      expect(await journal.readJob(newer.id)).toMatchObject(by("a"))
      expect(await journal.readJob(old.id)).toMatchObject({ submittedBy: null })

      const finished = await journal.finishedJobs([old.id, oldEnded.id, newerEnded.id, newId()])
      expect(finished.sort((a, b) => (a.id < b.id ? -1 : 1))).toEqual([oldEnded, newerEnded])
      expect(await journal.finishedJobs([])).toEqual([])
    })

    it("are listed by owner, status and workflow; DELETED ones only when requested", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const mine = (counter: number, over: object) => newJob(held, counter, { owner: "filtering", ...over })
      const failed = mine(1, { status: "FAILED", workflow: 'a, "b"' })
      const completed = mine(2, { status: "COMPLETED", workflow: "other" })
      const deleted = mine(3, { status: "DELETED", workflow: "other" })
      const foreign = newJob(held, 4, { owner: "filtering-not", status: "FAILED" })
      await store(journal, held, [failed, completed, deleted, foreign])
      const list = async (filter: object) =>
        (await journal.listJobs({ limit: 10, owner: "filtering", ...filter }, UNHURRIED)).jobs.map(
          job => job.id,
        )
      expect(await list({})).toEqual([completed.id, failed.id])
      expect(await list({ deleted: true })).toEqual([deleted.id, completed.id, failed.id])
      expect(await list({ statuses: ["FAILED", "DELETED"] })).toEqual([failed.id])
      expect(await list({ workflow: failed.workflow })).toEqual([failed.id])
      expect(await list({ workflow: "other", statuses: ["FAILED"] })).toEqual([])
      expect(await list({ owner: undefined, statuses: ["FAILED"], after: completed.id, limit: 1 })).toEqual([
        failed.id,
      ])
    })

    it("S2 are listed by labels, all of them, and by when they were created", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const mine = (counter: number, labels: object | null, createdAt: number) =>
        newJob(held, counter, {
          owner: "labelling",
          labels: labels === null ? null : JSON.stringify(labels),
          createdAt,
        })
      const both = mine(1, { team: "a", 'odd, "key"': "b}\\" }, 10)
      const one = mine(2, { team: "a" }, 20)
      const none = mine(3, null, 30)
      await store(journal, held, [both, one, none])
      const list = async (filter: object) =>
        (await journal.listJobs({ limit: 10, owner: "labelling", ...filter }, UNHURRIED)).jobs.map(
          job => job.id,
        )
      expect(await list({ labels: { team: "a" } })).toEqual([one.id, both.id])
      expect(await list({ labels: { team: "a", 'odd, "key"': "b}\\" } })).toEqual([both.id])
      expect(await list({ labels: { team: "b" } })).toEqual([])
      expect(await list({ labels: { other: "" } })).toEqual([])
      expect(await list({ labels: {} })).toEqual([none.id, one.id, both.id])
      expect(await list({ createdFrom: 20 })).toEqual([none.id, one.id])
      expect(await list({ createdFrom: 10, createdBefore: 30, labels: { team: "a" } })).toEqual([
        one.id,
        both.id,
      ])
      expect(await list({ owner: undefined, createdBefore: 20, labels: { team: "a" } })).toEqual([both.id])
    })

    it("J14 can be those of one parent, or those without a parent", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const owner = "families"
      const kinOf = (parent: { id: string }, tail: string) =>
        `${parent.id.slice(0, 18)}-8000-00000000000${tail}`
      const [top, other] = [newJob(held, 1, { owner }), newJob(held, 2, { owner })]
      const child = (parent: typeof top, tail: string, over = {}) =>
        newJob(held, 3 + Number(tail), { owner, id: kinOf(parent, tail), parentId: parent.id, ...over })
      const [first, second] = [child(top, "1"), child(top, "2", { status: "FAILED" })]
      const grandchild = newJob(held, 8, { owner, id: kinOf(top, "5"), parentId: first.id })
      await store(journal, held, [top, other, first, second, child(other, "4"), grandchild])
      const list = async (filter: object) =>
        (await journal.listJobs({ limit: 10, ...filter }, UNHURRIED)).jobs.map(job => job.id).sort()
      expect(await list({ parentId: top.id })).toEqual([first.id, second.id].sort())
      expect(await list({ parentId: top.id, owner: "somebody else" })).toEqual([])
      expect(await list({ parentId: top.id, owner, statuses: ["FAILED"] })).toEqual([second.id])
      expect(await list({ parentId: top.id, after: second.id })).toEqual([first.id])
      expect(await list({ parentId: first.id })).toEqual([grandchild.id])
      expect(await list({ parentId: null, owner })).toEqual([top.id, other.id].sort())
      expect(await list({ parentId: null, limit: 1000 })).not.toContain(first.id)
    })

    it("that are due come soonest first, with the time of the next", async () => {
      const { journal } = stage()
      const [a, b, foreign] = [await hold(journal), await hold(journal), await hold(journal)]
      const at = (held: typeof a, counter: number, wakeAt: number | null) => newJob(held, counter, { wakeAt })
      const [late, soon, sleeping] = [at(a, 1, 300), at(b, 1, 100), at(a, 2, null)]
      const [tieA, tieB, future] = [at(a, 3, 200), at(b, 3, 200), at(b, 4, 900)]
      await store(journal, a, [late, sleeping, tieA])
      await store(journal, b, [soon, tieB, future])
      await store(journal, foreign, [at(foreign, 1, 50)])
      const partitions = [a.partition, b.partition]
      const due = [soon, tieA, tieB, late].map(job => ({ wakeAt: job.wakeAt, id: job.id }))

      expect(await journal.dueJobs({ partitions, at: 300, limit: 10 })).toEqual({
        jobs: due,
        nextWakeAt: 900,
      })
      expect(await journal.dueJobs({ partitions, at: 300, limit: 4 })).toEqual({ jobs: due, nextWakeAt: 900 })
      expect(await journal.dueJobs({ partitions, at: 299, limit: 10 })).toEqual({
        jobs: due.slice(0, 3),
        nextWakeAt: 300,
      })
      expect(await journal.dueJobs({ partitions, at: 300, limit: 2 })).toEqual({
        jobs: due.slice(0, 2),
        nextWakeAt: 200,
      })
      expect(await journal.dueJobs({ partitions, at: 99, limit: 2 })).toEqual({ jobs: [], nextWakeAt: 100 })
      expect(await journal.dueJobs({ partitions: [], at: 999, limit: 2 })).toEqual({
        jobs: [],
        nextWakeAt: null,
      })
    })

    it("that are due come from behind the cursor on, also among equal times", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const jobs = Array.from({ length: 9 }, (_, counter) =>
        newJob(held, counter, { wakeAt: 100 + Math.floor(counter / 4) }),
      )
      await store(journal, held, jobs)
      const seen: string[] = []
      for (let after: { wakeAt: number; id: string } | undefined; ; ) {
        const query = { partitions: [held.partition], at: 200, limit: 2, ...(after && { after }) }
        const page = await journal.dueJobs(query)
        seen.push(...page.jobs.map(job => job.id))
        after = page.jobs.at(-1)
        if (!after) break
      }
      expect(seen).toEqual(jobs.map(job => job.id))
    })

    it("are counted between two places by wakeAt and id, up to a limit", async () => {
      const { journal } = stage()
      const [a, b, foreign] = [await hold(journal), await hold(journal), await hold(journal)]
      const jobs = [a, b].flatMap(held =>
        [1, 2, 3, 4].map(counter => newJob(held, counter, { wakeAt: -1000 + 10 * (counter % 2) })),
      )
      await store(journal, a, jobs.slice(0, 4))
      await store(journal, b, jobs.slice(4))
      await store(journal, foreign, [newJob(foreign, 1, { wakeAt: -1000 })])
      const partitions = [a.partition, b.partition]
      const count = (wakeAt: number, last: { wakeAt: number; id: string }, limit = 100) =>
        journal.countDue({ partitions, wakeAt, last, limit })
      const order = jobs
        .map(({ wakeAt, id }) => ({ wakeAt: wakeAt!, id }))
        .sort((x, y) => x.wakeAt - y.wakeAt || (x.id < y.id ? -1 : 1))
      for (const [before, last] of order.entries()) expect(await count(-1000, last)).toBe(before + 1)
      expect(await count(-999, order[7]!)).toBe(4)
      expect(await count(-1000, order[7]!, 3)).toBe(3)
      expect(await count(-2000, { ...order[0]!, wakeAt: -1001 })).toBe(0)
    })

    it("are listed among given ids alone, if they match", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const jobs = [1, 2, 3].map(counter => newJob(held, counter, { status: "QUEUED" }))
      await store(journal, held, jobs)
      const ids = jobs.slice(0, 2).map(({ id }) => id)
      const missing = jobs[0]!.id.replace(/.{12}$/, "0123456789ab")
      const listed = async (filter: { owner?: string; statuses?: ["QUEUED"] | ["FAILED"] }) =>
        (await journal.listJobs({ limit: 10, ...filter }, { ids: [...ids, missing] })).jobs.map(
          ({ id }) => id,
        )
      const newestFirst = [...ids].sort().reverse()
      expect(await listed({ statuses: ["QUEUED"] })).toEqual(newestFirst)
      expect(await listed({ statuses: ["QUEUED"], owner: jobs[0]!.owner })).toEqual(newestFirst)
      expect(await listed({ statuses: ["QUEUED"], owner: "other" })).toEqual([])
      expect(await listed({ statuses: ["FAILED"] })).toEqual([])
    })

    it("leave the alarm clock when their wakeAt is cleared, and move when it changes", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const [done, moved] = [newJob(held, 1, { wakeAt: 10 }), newJob(held, 2, { wakeAt: 10 })]
      await store(journal, held, [done, moved])
      const changedJobs = [
        change(done, { seq: held.seq(3), wakeAt: null, status: "COMPLETED", finishedAt: 8_000_000 }),
        change(moved, { seq: held.seq(4), wakeAt: 30 }),
      ]
      await journal.append(batch(held, { changedJobs }))
      const partitions = [held.partition]
      expect(await journal.dueJobs({ partitions, at: 20, limit: 9 })).toEqual({ jobs: [], nextWakeAt: 30 })
      expect((await journal.dueJobs({ partitions, at: 30, limit: 9 })).jobs).toEqual([
        { wakeAt: 30, id: moved.id },
      ])
    })

    it("may get new labels, by which lists find them", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const owner = `labels-${newId()}`
      const job = newJob(held, 1, { owner, labels: '{"team":"shop"}' })
      await store(journal, held, [job])
      const relabelled = { seq: held.seq(2), labels: '{"team":"ops"}', isRelabelled: true } as const
      await journal.append(batch(held, { changedJobs: [change(job, relabelled)] }))
      const found = async (team: string) =>
        (await peer.listJobs({ owner, labels: { team }, limit: 9 })).jobs.map(({ id }) => id)
      expect(await found("ops")).toEqual([job.id])
      expect(await found("shop")).toEqual([])
      await journal.append(batch(held, { changedJobs: [change(job, { seq: held.seq(3), labels: null })] }))
      expect((await peer.readJob(job.id))?.labels).toBeNull()
    })

    it("that do not exist read as null", async () => {
      expect(await stage().journal.readJob(newId())).toBeNull()
    })
  })
}
