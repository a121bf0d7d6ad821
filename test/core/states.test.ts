import { describe, expect, it } from "vitest"
import {
  jobHasEnded,
  jobMayBecome,
  jobStatuses,
  type jobTransitions,
  nodeMayBecome,
  nodeTransitions,
} from "../../src/core/states.ts"

/** Spelled out again from the requirements: `from: to, to`. */
const jobs = `
PENDING: QUEUED, CANCELLED, EXPIRED
QUEUED: DISPATCHING, CANCELLED, EXPIRED
DISPATCHING: PROCESSING, COMPLETED, FAILED, CANCELLED, EXPIRED
PROCESSING: PREVIEW, COMPLETED, FAILED, CANCELLED, EXPIRED
PREVIEW: PROCESSING, COMPLETED, FAILED, CANCELLED, EXPIRED
FAILED: QUEUED, DELETED
CANCELLED: QUEUED, DELETED
EXPIRED: QUEUED, DELETED
COMPLETED: DELETED
DELETED:`

const nodes = `
PENDING: QUEUED, COMPLETED, WAITING, SKIPPED, FAILED, CANCELLED
QUEUED: RUNNING, SKIPPED, FAILED, CANCELLED
RUNNING: COMPLETED, WAITING, QUEUED, FAILED, CANCELLED
WAITING: COMPLETED, QUEUED, FAILED, CANCELLED
FAILED: PENDING, QUEUED
CANCELLED: PENDING, QUEUED
COMPLETED:
SKIPPED:`

function tableOf(text: string): Map<string, Set<string>> {
  return new Map(
    text
      .trim()
      .split("\n")
      .map(line => {
        const [from, to] = line.split(":")
        return [
          from!,
          new Set(
            to!
              .split(",")
              .map(name => name.trim())
              .filter(name => name !== ""),
          ),
        ]
      }),
  )
}

function pairs(table: Map<string, Set<string>>) {
  const names = [...table.keys()]
  return names.flatMap(from => names.map(to => ({ from, to, legal: table.get(from)!.has(to) })))
}

describe("J1 job states", () => {
  it("are exactly those of the requirements", () => {
    expect([...jobStatuses].sort()).toEqual([...tableOf(jobs).keys()].sort())
  })

  it.each(pairs(tableOf(jobs)))("$from → $to: $legal", ({ from, to, legal }) => {
    expect(jobMayBecome(from as keyof typeof jobTransitions, to as keyof typeof jobTransitions)).toBe(legal)
  })

  it("five of them end a job", () => {
    const ended = jobStatuses.filter(jobHasEnded).sort()
    expect(ended).toEqual(["CANCELLED", "COMPLETED", "DELETED", "EXPIRED", "FAILED"])
  })
})

describe("J2 node states", () => {
  it("are exactly those of the requirements", () => {
    expect(Object.keys(nodeTransitions).sort()).toEqual([...tableOf(nodes).keys()].sort())
  })

  it.each(pairs(tableOf(nodes)))("$from → $to: $legal", ({ from, to, legal }) => {
    expect(nodeMayBecome(from as keyof typeof nodeTransitions, to as keyof typeof nodeTransitions)).toBe(
      legal,
    )
  })
})
