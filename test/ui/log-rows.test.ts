/** What the list of a log shows between the lines of a handler. */
import { describe, expect, it } from "vitest"
import type { LogLine } from "../../ui/src/job/panel/logs/reader.ts"
import { findMatches, formatRows, logRows } from "../../ui/src/job/panel/logs/rows.ts"

const line = (number: number, more: Partial<LogLine> = {}): LogLine => ({
  ...{ id: `0.0.1.${number}`, at: 1000 + number, level: "info", message: `line ${number}`, line: number },
  ...more,
})
const engine = (at: number, message: string): LogLine => ({ id: `${at}`, at, level: "info", message })
const whole = { older: null, hasNewer: false }
const texts = (...given: Parameters<typeof logRows>) => logRows(...given).map(({ text }) => text)

describe("rows of a log", () => {
  it("say how many lines were lost, and that an attempt has begun again", () => {
    const lines = [line(1), line(5, { lost: 3 }), line(6, { lost: 1 }), line(1, { id: "0.0.2.1", at: 1010 })]
    expect(texts({ lines, ...whole }, [], null)).toEqual([
      ...["line 1", "3 lines were lost", "line 5", "1 line was lost", "line 6"],
      ...["The attempt restarts in another process", "line 1"],
    ])
    // At the end of the attempt there is no line after them.
    const end = { ...engine(2, "waits for signal ok"), lost: 2 }
    expect(texts({ lines: [line(1)], ...whole }, [engine(1, "dispatched"), end], null)).toEqual([
      ...["dispatched", "line 1", "2 lines were lost", "waits for signal ok"],
    ])
    // Lines of several items have their own numbers.
    const items = [line(1, { item: 0 }), line(1, { item: 1 })]
    expect(texts({ lines: items, ...whole }, [], null)).toEqual(["line 1", "line 1"])
  })

  it("have what the engine did at its place, whatever the clock of the worker says", () => {
    const did = [
      engine(1, "dispatched"),
      engine(5000, "started on a"),
      engine(1002, "got a slot"),
      engine(2, "completed after 3 ms"),
    ]
    const lines = [line(1), line(2), line(3)]
    expect(texts({ lines, ...whole }, did, null)).toEqual([
      ...["dispatched", "started on a", "line 1", "got a slot", "line 2", "line 3", "completed after 3 ms"],
    ])
    // In the middle of a longer log neither its beginning nor its end are here.
    expect(texts({ lines, older: "0.0.1.1", hasNewer: true }, did, null)).toEqual([
      ...["line 1", "got a slot", "line 2", "line 3"],
    ])
    expect(texts({ lines, ...whole }, did, 1002)).toEqual([
      ...["dispatched", "line 1", "got a slot", "line 2", "completed after 3 ms"],
    ])
  })

  it("are found by message and fields, and copied with both", () => {
    const rows = logRows(
      { lines: [line(1, { fields: { sku: "Tea", stack: "a\n  b" } }), line(2)], ...whole },
      [],
      null,
    )
    expect(findMatches(rows, "tea")).toEqual([0])
    expect(findMatches(rows, "LINE")).toEqual([0, 1])
    expect(findMatches(rows, "")).toEqual([])
    const end = { ...engine(1003, "completed after 3 ms") }
    const copied = [...rows, ...logRows({ lines: [], ...whole }, [end], null)]
    // No line of a handler can look like one of the engine.
    expect(formatRows(copied).split("\n")).toEqual([
      ...["1970-01-01T00:00:01.001Z INFO    line 1", "    sku=Tea", "    stack=a", "      b"],
      ...["1970-01-01T00:00:01.002Z INFO    line 2", "1970-01-01T00:00:01.003Z INFO  * completed after 3 ms"],
    ])
  })
})
