/** Files that a command watches. They are polled: that works on every file system, and with editors that replace files. */
import { readdir, stat } from "node:fs/promises"
import { basename, dirname, join, resolve } from "node:path"

/** A folder with more files is watched only in part. */
const MOST_FILES = 2000
const POLL_MS = 300

/** The state of the files when they were last read, by path. */
export type Snapshot = ReadonlyMap<string, string>

/** The workflow files that these arguments name: files, and the YAML files of folders. */
export async function workflowFiles(names: readonly string[]): Promise<string[]> {
  const found: string[] = []
  for (const name of names) {
    const entries = await readdir(name).catch(() => null)
    if (entries === null) found.push(name)
    else found.push(...entries.filter(entry => /\.ya?ml$/i.test(entry)).map(entry => join(name, entry)))
  }
  return found.sort()
}

/** The code that the modules may consist of: all files beside and below them, without installed packages. */
export async function moduleFiles(modules: readonly string[]): Promise<string[]> {
  const found = new Set<string>()
  for (const module of modules) {
    const path = resolve(module)
    const isFile = await stat(path).then(
      entry => entry.isFile(),
      () => false,
    )
    // The name of a package.
    if (isFile) await collect(dirname(path), found)
  }
  return [...found].sort()
}

async function collect(folder: string, found: Set<string>): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  for (const entry of entries) {
    if (found.size >= MOST_FILES || entry.name.startsWith(".")) continue
    const path = join(folder, entry.name)
    if (entry.isDirectory()) {
      if (basename(path) !== "node_modules") await collect(path, found)
    } else if (/\.([cm]?[jt]s|json)$/.test(entry.name)) found.add(path)
  }
}

export async function snapshot(files: readonly string[]): Promise<Snapshot> {
  const looks = await Promise.all(
    files.map(async file => {
      const entry = await stat(file).catch(() => null)
      return [file, entry === null ? "" : `${entry.mtimeMs} ${entry.size} ${entry.ino}`] as const
    }),
  )
  return new Map(looks)
}

/** Resolves with the paths of files that are new, changed or gone, once no more change arrives. Empty: the signal was aborted. */
export async function nextChange(
  before: Snapshot,
  list: () => Promise<readonly string[]>,
  signal: AbortSignal,
): Promise<{ readonly changed: readonly string[]; readonly now: Snapshot }> {
  let last = before
  for (;;) {
    await pause(signal)
    const now = await snapshot(await list())
    if (signal.aborted) return { changed: [], now }
    const changed = differences(before, now)
    // A file that is being written has another size in the next turn.
    if (changed.length > 0 && differences(last, now).length === 0) return { changed, now }
    last = now
  }
}

function differences(a: Snapshot, b: Snapshot): string[] {
  const paths = new Set([...a.keys(), ...b.keys()])
  return [...paths].filter(path => a.get(path) !== b.get(path))
}

function pause(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener("abort", end)
      resolve()
    }
    const timer = setTimeout(end, POLL_MS)
    signal.addEventListener("abort", end)
    if (signal.aborted) end()
  })
}
