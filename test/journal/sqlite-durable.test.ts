/**
 * What is on the disk when an append is acknowledged, by the system calls of a process: whatever was written before a sync of
 * that file survives a power cut, and a name survives if its folder was synced after it was given.
 */
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"
import { programArguments } from "../support/program.ts"
import { freshFolder } from "./folder.ts"
import { type Call, isSync, traced } from "./strace.ts"

const child = fileURLToPath(new URL("./durable-child.ts", import.meta.url))

const APPENDS = 20

/** Files and folders by name, and what a power cut at this moment would take from them. */
class Disk {
  readonly violations: string[] = []
  acknowledged = 0
  #wal: string
  /** Files with writes that are not synced. */
  readonly #dirty = new Set<string>()
  /** Names that were given or taken in a folder that was not synced since. */
  readonly #unsynced = new Map<string, string[]>()
  readonly #folder: string
  #walWrites = 0

  constructor(folder: string) {
    this.#folder = folder
    this.#wal = join(folder, "umbra.db-wal")
  }

  see({ name, args }: Call): void {
    const path = /^\d+<([^>]*)>/.exec(args)?.[1] ?? ""
    const [first = "", second = ""] = [...args.matchAll(/"([^"]*)"/g)].map(match => match[1]!)
    if (name === "write" && first.startsWith("acknowledged")) this.#acknowledge(first)
    else if (name === "write" || name === "pwrite64") this.#write(path, args)
    else if (name === "ftruncate") this.#dirty.add(path)
    else if (isSync({ name, args })) this.#sync(path)
    else if (name === "openat" && args.includes("O_CREAT")) this.#named(first)
    else if (name === "mkdir" && / = 0$/.test(args)) this.#named(first)
    else if (name.startsWith("rename")) this.#rename(first, second)
    else if (name === "unlink") this.#unlink(first)
  }

  #acknowledge(text: string): void {
    this.acknowledged++
    const problems = [
      ...(this.#walWrites === 0 ? ["nothing was written to the WAL"] : []),
      ...(this.#dirty.has(this.#wal) ? ["the WAL was not synced"] : []),
      ...(this.#dirty.has(join(this.#folder, "umbra.db")) ? ["the database was not synced"] : []),
      ...["umbra.db", "umbra.db-wal"]
        .filter(name => this.#isUnnamed(name))
        .map(name => `${name} has no name`),
      ...[...this.#unsynced.get(join(this.#folder, ".."))!].map(path => `${path} has no name`),
    ]
    this.violations.push(...problems.map(problem => `${text.slice(0, 15)}: ${problem}`))
    this.#walWrites = 0
  }

  #isUnnamed(name: string): boolean {
    return (this.#unsynced.get(this.#folder) ?? []).includes(join(this.#folder, name))
  }

  #write(path: string, args: string): void {
    this.#dirty.add(path)
    if (path !== this.#wal) return
    this.#walWrites++
    // The WAL is begun anew: from now on what was in it is in the database alone.
    if (/, 0\) = \d+$/.test(args) && this.#dirty.has(join(this.#folder, "umbra.db")))
      this.violations.push("the WAL was begun anew before the database was synced")
  }

  #sync(path: string): void {
    this.#dirty.delete(path)
    this.#unsynced.set(path, [])
  }

  #named(path: string): void {
    const folder = join(path, "..")
    this.#unsynced.set(folder, [...(this.#unsynced.get(folder) ?? []), path])
  }

  #rename(from: string, to: string): void {
    if (to === join(this.#folder, "umbra.db") && this.#dirty.has(from))
      this.violations.push(`${from} was renamed before it was synced`)
    this.#named(to)
  }

  #unlink(path: string): void {
    if (path === this.#wal && this.#dirty.has(join(this.#folder, "umbra.db")))
      this.violations.push("the WAL was removed before the database was synced")
  }
}

async function run(synchronous: "full" | "normal"): Promise<Disk> {
  const folder = join(await freshFolder(), "data")
  const disk = new Disk(folder)
  const trace = join(folder, "..", "trace")
  for (const call of await traced([...programArguments(child), folder, synchronous], trace)) disk.see(call)
  return disk
}

describe.runIf(process.platform === "linux")("an acknowledged append", () => {
  it("is on the disk with every file and name that it needs", async () => {
    const { acknowledged, violations } = await run("full")
    expect(violations).toEqual([])
    expect(acknowledged).toBe(APPENDS)
  })

  it("is not with synchronous normal, which this test can see", async () => {
    const { acknowledged, violations } = await run("normal")
    expect(acknowledged).toBe(APPENDS)
    expect(violations.length).toBeGreaterThanOrEqual(APPENDS - 1)
    expect(violations).toContain("acknowledged 20: the WAL was not synced")
  })
})
