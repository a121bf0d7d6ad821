/** A setup file: writes what the test file costs to the file that UMBRA_TEST_COSTS names (scripts/test/costs.ts). */
import { appendFileSync, readdirSync, readFileSync } from "node:fs"
import { relative, resolve } from "node:path"
import { afterAll, expect } from "vitest"
import type { FileCost } from "../../scripts/test/costs.ts"

const root = resolve(import.meta.dirname, "../..")
/** Of one process, in seconds: its own processor time, and that of its children that have ended. */
interface Usage {
  readonly parent: number
  readonly own: number
  readonly ended: number
}

/** Linux counts in hundredths of a second. */
function usageOf(pid: number): Usage | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
    // After the name of the program, which may have spaces and brackets.
    const fields = stat
      .slice(stat.lastIndexOf(")") + 2)
      .split(" ")
      .map(Number)
    const [parent, user, system, endedUser, endedSystem] = [1, 11, 12, 13, 14].map(index => fields[index]!)
    return { parent: parent!, own: (user! + system!) / 100, ended: (endedUser! + endedSystem!) / 100 }
  } catch {
    return null
  }
}

function used(): Omit<FileCost, "file"> {
  const all = new Map<number, Usage>()
  for (const name of readdirSync("/proc")) {
    const usage = /^\d+$/.test(name) ? usageOf(Number(name)) : null
    if (usage !== null) all.set(Number(name), usage)
  }
  const isOurs = (pid: number): boolean => {
    const parent = all.get(pid)?.parent
    return parent === process.pid || (parent !== undefined && isOurs(parent))
  }
  const own = all.get(process.pid)!
  const others = [...all].filter(([pid]) => isOurs(pid)).map(([, usage]) => usage.own + usage.ended)
  return {
    wall: performance.now() / 1000,
    worker: own.own,
    processes: own.ended + others.reduce((sum, one) => sum + one, 0),
  }
}

const before = used()

afterAll(() => {
  const after = used()
  const cost: FileCost = {
    file: relative(root, expect.getState().testPath!),
    wall: after.wall - before.wall,
    worker: after.worker - before.worker,
    processes: after.processes - before.processes,
  }
  appendFileSync(process.env.UMBRA_TEST_COSTS!, `${JSON.stringify(cost)}\n`)
})
