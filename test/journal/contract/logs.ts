import { describe, expect, it } from "vitest"
import type { LogQuery } from "../../../src/journal/port/logs.ts"
import type { LoggedLines } from "../../../src/log.ts"
import { freeJobs, hold, newId, newJob, type Stage, store } from "../fixture.ts"

const all = { level: 0, from: 0, limit: 1000, maxBytes: 1_000_000 }

export function logsContract(stage: () => Stage): void {
  const storedJob = async () => {
    const held = await hold(stage().journal)
    const job = newJob(held, 1, { status: "COMPLETED", finishedAt: 10 })
    await store(stage().journal, held, [job])
    return { held, jobId: job.id }
  }
  const row = (jobId: string, firstLine: number, over: Partial<LoggedLines> = {}): LoggedLines => ({
    ...{ jobId, nodeId: "a", item: -1, fence: 1, attempt: 1, firstLine, lastLine: firstLine, level: 1 },
    lines: `["${firstLine}"]`,
    ...over,
  })
  const read = async (jobId: string, query: Partial<LogQuery> = {}) =>
    stage().peer.logs.read({ ...all, jobId, ...query })
  const texts = async (jobId: string, query: Partial<LogQuery> = {}) =>
    (await read(jobId, query)).map(({ lines }) => lines)

  describe("log rows", () => {
    it("are read in the order of their writing, by job, node, item and attempt, from any position", async () => {
      const { logs } = stage().journal
      const { jobId } = await storedJob()
      const other = (await storedJob()).jobId
      await logs.write([
        row(jobId, 1),
        row(other, 1),
        row(jobId, 1, { nodeId: "b", item: 2, lines: '["b2"]' }),
        row(jobId, 1, { nodeId: "b", item: 0, lines: '["b0"]' }),
      ])
      await logs.write([
        row(jobId, 2),
        row(jobId, 1, { fence: 3, attempt: 2, lines: '["again"]' }),
        row(jobId, 1, { nodeId: "b", item: 2, fence: 2, attempt: 2, lines: '["b2 again"]' }),
      ])
      expect(await texts(jobId)).toEqual([
        ...['["1"]', '["b2"]', '["b0"]', '["2"]', '["again"]', '["b2 again"]'],
      ])
      expect(await texts(jobId, { nodeId: "a" })).toEqual(['["1"]', '["2"]', '["again"]'])
      expect(await texts(jobId, { nodeId: "a", attempt: 1 })).toEqual(['["1"]', '["2"]'])
      expect(await texts(jobId, { nodeId: "a", item: -1, attempt: 2 })).toEqual(['["again"]'])
      expect(await texts(jobId, { nodeId: "b" })).toEqual(['["b2"]', '["b0"]', '["b2 again"]'])
      expect(await texts(jobId, { nodeId: "b", item: 2 })).toEqual(['["b2"]', '["b2 again"]'])
      expect(await texts(jobId, { nodeId: "b", item: 2, attempt: 2 })).toEqual(['["b2 again"]'])
      expect(await texts(jobId, { nodeId: "c" })).toEqual([])
      const rows = await read(jobId)
      const [, second, third] = rows.map(({ position }) => position)
      expect(await read(jobId, { from: second!, limit: 2 })).toEqual(rows.slice(1, 3))
      expect(await texts(jobId, { nodeId: "b", from: third! })).toEqual(['["b0"]', '["b2 again"]'])
      const down = { from: third!, downwards: true }
      expect(await read(jobId, { ...down, limit: 2 })).toEqual([rows[2], rows[1]])
      expect(await read(jobId, { ...down, from: Number.MAX_SAFE_INTEGER })).toEqual(rows.toReversed())
      expect(await texts(jobId, { ...down, nodeId: "a" })).toEqual(['["1"]'])
      expect(await texts(jobId, { ...down, nodeId: "b" })).toEqual(['["b0"]', '["b2"]'])
      expect(await texts(jobId, { ...down, nodeId: "b", item: 2 })).toEqual(['["b2"]'])
      expect(await texts(jobId, { ...down, nodeId: "b", attempt: 2 })).toEqual([])
      expect(rows[0]).toEqual({
        ...{ position: rows[0]!.position, nodeId: "a", item: -1, fence: 1, attempt: 1 },
        ...{ run: 1, firstLine: 1, lastLine: 1, level: 1, lost: 0, lines: '["1"]' },
      })
    })

    it("are stored once, however often they are sent, and say how many lines are missing before them", async () => {
      const { logs } = stage().journal
      const { jobId } = await storedJob()
      const rows = [row(jobId, 1, { lastLine: 4 }), row(jobId, 5, { lastLine: 6 })]
      await logs.write(rows)
      await logs.write([...rows, row(jobId, 10)])
      // The first rows of another attempt are lost.
      await logs.write([row(jobId, 3, { fence: 2 })])
      expect((await read(jobId)).map(({ firstLine, lost }) => [firstLine, lost])).toEqual([
        ...[[1, 0], [5, 0], [10, 3], [3, 2]], // biome-ignore format: pairs
      ])
    })

    it("of two runs of one attempt are numbered each for itself, whatever the order in which they arrive", async () => {
      const { logs } = stage().journal
      const { jobId } = await storedJob()
      const of = (runId: number, firstLine: number, over: Partial<LoggedLines> = {}) =>
        row(jobId, firstLine, { runId, lines: `["${runId}: ${firstLine}"]`, ...over })
      // The first lines of the first run are lost, as is the second line of the other.
      await logs.write([of(70, 3, { lastLine: 4 })])
      await logs.write([of(60, 1), row(jobId, 1, { lines: '["none: 1"]' }), of(50, 1), of(60, 3)])
      await logs.write([of(70, 5), of(50, 2), of(60, 4), row(jobId, 2, { lines: '["none: 2"]' })])
      expect((await read(jobId)).map(({ run, lost, lines }) => [run, lost, lines])).toEqual([
        [1, 2, '["70: 3"]'],
        ...[[2, 0, '["60: 1"]'], [3, 0, '["none: 1"]'], [4, 0, '["50: 1"]'], [2, 1, '["60: 3"]']], // biome-ignore format: rows
        ...[[1, 0, '["70: 5"]'], [4, 0, '["50: 2"]'], [2, 0, '["60: 4"]'], [3, 0, '["none: 2"]']], // biome-ignore format: rows
      ])
      const [first, ...rest] = (await read(jobId)).map(({ position }) => position)
      expect(rest).toEqual(rest.map((_, n) => first! + n + 1))
      const key = { nodeId: "a", item: -1, fence: 1, attempt: 1 }
      const asked = [{ ...key, runId: 50 }, { ...key, runId: 60 }, { ...key, runId: 99 }, key]
      const found = await stage().peer.logs.extents(jobId, asked)
      // Rows without a run may be of any.
      expect(found.map(({ lastLine }) => lastLine)).toEqual([2, 4, 2, 5])
      for (const extent of found)
        expect(extent).toMatchObject({ first, last: rest.at(-1), isRepeated: false })
    })

    it("of one run are stored in the order of their lines: one that arrives too late is left out, and stays a gap", async () => {
      const { logs } = stage().journal
      const { jobId } = await storedJob()
      const of = (firstLine: number, lastLine: number) =>
        row(jobId, firstLine, { runId: 7, lastLine, lines: `["${firstLine} to ${lastLine}"]` })
      await logs.write([of(3, 4)])
      const shown = await read(jobId)
      // Its owner was paused between reading it from Redis and storing it.
      await logs.write([of(1, 2)])
      await logs.write([of(7, 8), of(5, 6), of(7, 8), of(4, 8), of(9, 9)])
      const rows = await read(jobId)
      expect(rows.slice(0, 1)).toEqual(shown)
      expect(rows.map(({ lines, lost }) => [lines, lost])).toEqual([
        ['["3 to 4"]', 2],
        ['["7 to 8"]', 2],
        ['["9 to 9"]', 0],
      ])
    })

    it("leave no position free, whatever is sent again: a row of another writer can never come before one that was read", async () => {
      const { logs } = stage().journal
      const { jobId } = await storedJob()
      const rows = Array.from({ length: 5 }, (_, n) => row(jobId, n + 1, { runId: 7 }))
      await logs.write(rows.slice(0, 3))
      await logs.write(rows)
      await stage().peer.logs.write([...rows, row(jobId, 1, { runId: 8 })])
      const positions = (await read(jobId)).map(({ position }) => position)
      expect(positions).toEqual(positions.map((_, n) => positions[0]! + n))
      expect(positions).toHaveLength(6)
    })

    it("return where the rows of each attempt are, in the order of the query", async () => {
      const { logs } = stage().journal
      const { jobId } = await storedJob()
      await logs.write([
        row(jobId, 1, { lastLine: 4 }),
        row(jobId, 5, { lastLine: 9 }),
        row(jobId, 1, { fence: 2, lastLine: 2 }),
        row(jobId, 1, { nodeId: "b", item: 3 }),
      ])
      const attempt = (nodeId: string, item: number, fence: number) => ({
        ...{ nodeId, item, fence, attempt: 1 },
      })
      const asked = [attempt("b", 3, 1), attempt("a", -1, 2), attempt("c", -1, 1), attempt("a", -1, 1)]
      const [first] = await read(jobId)
      const at = (place: number) => first!.position + place
      const none = { lastLine: 0, first: null, last: null, isRepeated: false }
      expect(await stage().peer.logs.extents(jobId, asked)).toEqual([
        { lastLine: 1, first: at(3), last: at(3), isRepeated: false },
        { lastLine: 2, first: at(2), last: at(2), isRepeated: true },
        none,
        { lastLine: 9, first: at(0), last: at(1), isRepeated: false },
      ])
      expect(await stage().peer.logs.extents(newId(), asked)).toEqual([none, none, none, none])
    })

    it("come without lines where no line has the wanted level, and beyond the wanted size", async () => {
      const { logs } = stage().journal
      const { jobId } = await storedJob()
      const levels = [1, 3, 0, 2, 3]
      await logs.write(
        levels.map((level, index) => row(jobId, index + 1, { level, lines: `["123${index}"]` })),
      )
      expect(await texts(jobId, { level: 2 })).toEqual([null, '["1231"]', null, '["1233"]', '["1234"]'])
      expect(await texts(jobId, { level: 2, maxBytes: 9 })).toEqual([
        null,
        '["1231"]',
        null,
        '["1233"]',
        null,
      ])
      expect(await texts(jobId, { maxBytes: 8 })).toEqual(['["1230"]', null, null, null, null])
      const down = { from: Number.MAX_SAFE_INTEGER, downwards: true }
      expect(await texts(jobId, { ...down, level: 2, maxBytes: 9 })).toEqual([
        ...['["1234"]', '["1233"]', null, null, null],
      ])
      for (const nodeId of ["a", undefined])
        expect(await texts(jobId, { ...down, nodeId, maxBytes: 8 })).toEqual([
          '["1234"]',
          null,
          null,
          null,
          null,
        ])
    })

    it("keep any text, and are left out for a job that is not in the store", async () => {
      const { logs } = stage().journal
      const { jobId } = await storedJob()
      const lines = JSON.stringify(["no\u0000film \ud83c \u001e\u001f 🎬\n\\"])
      const missing = newId()
      await logs.write([row(missing, 1), row(jobId, 1, { lines })])
      expect(await texts(jobId)).toEqual([lines])
      expect(await texts(missing)).toEqual([])
      await logs.write([])
    })

    it("are removed with their job, in pages", async () => {
      const { journal } = stage()
      const { held, jobId } = await storedJob()
      const kept = await storedJob()
      await journal.logs.write(
        Array.from({ length: 25 }, (_, index) => [row(jobId, index + 1), row(kept.jobId, index + 1)]).flat(),
      )
      expect(await journal.logs.purgeRows({ limit: 10 })).toBe(0)
      const jobIds = await freeJobs(journal, held, { before: 40 })
      expect(await journal.purge({ fences: [held], jobIds, before: 40, limit: 100 })).toBe(1)
      expect(await journal.logs.purgeRows({ limit: 10 })).toBe(10)
      expect(await journal.logs.purgeRows({ limit: 10 })).toBe(10)
      expect(await journal.logs.purgeRows({ limit: 10 })).toBe(5)
      expect(await texts(jobId)).toEqual([])
      // A line that arrives late.
      await journal.logs.write([row(jobId, 26)])
      expect(await texts(jobId)).toEqual([])
      expect(await journal.logs.purgeRows({ limit: 10 })).toBe(0)
      expect(await texts(kept.jobId)).toHaveLength(25)
    })

    it("of two writers at once have positions of their own", async () => {
      const { journal, peer } = stage()
      const [one, two] = [await storedJob(), await storedJob()]
      const rows = (fence: number) =>
        Array.from({ length: 50 }, (_, index) =>
          [one, two].map(({ jobId }) => row(jobId, index + 1, { fence })),
        ).flat()
      await Promise.all([
        ...[
          journal.logs.write(rows(1)),
          peer.logs.write(
            rows(2)
              .map((each, runId) => ({ ...each, runId }))
              .reverse(),
          ),
        ],
        ...[journal.logs.write(rows(3)), peer.logs.write(rows(4))],
      ])
      for (const { jobId } of [one, two]) {
        const positions = (await read(jobId)).map(({ position }) => position)
        expect(new Set(positions).size).toBe(200)
        expect(Math.max(...positions) - Math.min(...positions)).toBe(199)
      }
    })

    it("of one run that two owners write at once are in the order of their lines", async () => {
      const { journal, peer } = stage()
      const jobs = await Promise.all(Array.from({ length: 5 }, storedJob))
      const all = jobs.flatMap(({ jobId }) =>
        Array.from({ length: 40 }, (_, n) => row(jobId, n + 1, { runId: 7 })),
      )
      const of = (from: number, to: number) =>
        all.filter(({ firstLine }) => firstLine >= from && firstLine <= to)
      // Each has read a part of what the other has, and lines that the other has not.
      await Promise.all([
        (async () => {
          for (let to = 4; to <= 40; to += 4) await journal.logs.write(of(to - 7, to))
        })(),
        (async () => {
          for (let to = 3; to <= 40; to += 3) await peer.logs.write(of(to - 10, to))
        })(),
      ])
      for (const { jobId } of jobs) {
        const rows = await read(jobId)
        let last = 0
        for (const { firstLine, lastLine, lost } of rows) {
          expect(firstLine).toBe(last + lost + 1)
          last = lastLine
        }
        expect(last).toBe(40)
        expect(rows.map(({ position }) => position - rows[0]!.position)).toEqual(rows.map((_, n) => n))
      }
    })
  })
}
