/**
 * Allows one process per folder: two engines on one embedded database would fence each other in turn, and
 * SQLite's own locks do not tell which process holds it.
 *
 * The lock is the file `lock.N` with the highest N. Invariants:
 * 1. N only rises. A file is created with O_EXCL, so of several starting processes that saw the same dead
 *    lock.N exactly one creates lock.N+1; a process that created a file checks again and gives way if a
 *    higher one exists.
 * 2. The highest file is never removed, only marked as released: no number is used twice, so a slow process
 *    cannot mistake an old state for the current one.
 * 3. A holder that is visible (same boot, same pid namespace) is checked by its pid and start time, at once.
 *    A holder that is not (another container or machine sharing the folder) is checked by its heartbeat: it
 *    touches the file every second, and a holder whose file is untouched for five seconds is dead.
 *
 * The kernel would free a listening socket, but its stale file has to be removed before the next process can
 * bind, and two processes doing so is the race that this avoids
 * (docs/decisions/0006-one-process-per-folder.md).
 */
import { readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { UmbraError } from "../errors.ts"
import { checkLife, isVisible, ownIdentity, type ProcessIdentity } from "../process-identity.ts"

export interface LockHolder extends ProcessIdentity {
  /** ISO 8601. */
  readonly since: string
  readonly released?: boolean
  /** The URL of the holder, if it is a server; null: it is not a server. Absent: not announced yet. */
  readonly url?: string | null
}

export interface FolderLock {
  release(): Promise<void>
}

export interface FolderLockOptions {
  /** Called once when another process holds the lock: stop using the folder at once. */
  readonly onLost: () => void
  readonly beatMs?: number
  readonly watchMs?: number
}

const BEAT_MS = 1_000
const WATCH_MS = 5_000

export async function lockFolder(folder: string, options: FolderLockOptions): Promise<FolderLock> {
  const own: LockHolder = { ...ownIdentity(), since: new Date().toISOString() }
  for (;;) {
    const newest = await newestLock(folder)
    if (newest > 0) await refuseIfHeld(folder, newest, own, options.watchMs ?? WATCH_MS)
    const mine = newest + 1
    if (!(await create(lockPath(folder, mine), own))) continue
    if ((await newestLock(folder)) !== mine) {
      await rm(lockPath(folder, mine), { force: true })
      continue
    }
    await removeOlder(folder, mine)
    return hold(folder, mine, own, options)
  }
}

function hold(folder: string, mine: number, own: LockHolder, options: FolderLockOptions): FolderLock {
  const path = lockPath(folder, mine)
  let over = false
  const beat = async () => {
    await utimes(path, new Date(), new Date()).catch(() => {})
    const newest = await newestLock(folder).catch(() => mine)
    // On a slow disk two heartbeats overlap: only the first that detects it reports it.
    if (newest === mine || over) return
    over = true
    clearInterval(timer)
    options.onLost()
  }
  const timer = setInterval(() => void beat(), options.beatMs ?? BEAT_MS).unref()
  return {
    async release() {
      over = true
      clearInterval(timer)
      // The folder may have been removed meanwhile: then there is nothing to release.
      await rewrite(path, { ...own, released: true }).catch(() => {})
    },
  }
}

/** Atomic: a reader sees the old content or the new. */
async function rewrite(path: string, holder: LockHolder): Promise<void> {
  const draft = `${path}.draft`
  await writeFile(draft, JSON.stringify(holder))
  await rename(draft, path)
}

/**
 * Writes into this process's lock at which URL it serves, or that it does not; this process must hold the
 * folder.
 */
export async function announceServer(folder: string, url: string | null): Promise<void> {
  const number = await newestLock(folder)
  const holder = await readHolder(lockPath(folder, number))
  const { pid, started } = ownIdentity()
  // Lost to another process at this very moment: the database will report it.
  if (holder === null || holder.released || holder.pid !== pid || holder.started !== started) return
  await rewrite(lockPath(folder, number), { ...holder, url })
}

/**
 * The holder of the folder, as far as it is visible from here at once; null: there is none, its process is
 * known to be dead, or it is not visible, so that its address would mean something else here (another
 * container).
 */
export async function findHolder(folder: string): Promise<LockHolder | null> {
  const { holder } = await newestHolder(folder)
  if (holder === null || holder.released) return null
  const own = ownIdentity()
  return isVisible(holder, own) && checkLife(holder, own) !== "dead" ? holder : null
}

/**
 * For a process that reads beside the holder: SQLite shares memory between them, which works only on one
 * machine.
 */
export async function refuseOtherMachine(folder: string, watchMs = WATCH_MS): Promise<void> {
  const { number, holder } = await newestHolder(folder)
  const own = ownIdentity()
  if (holder === null || (holder.boot === own.boot && (own.boot !== "" || holder.host === own.host))) return
  await refuseIfHeld(folder, number, own, watchMs)
}

async function refuseIfHeld(
  folder: string,
  number: number,
  own: ProcessIdentity,
  watchMs: number,
): Promise<void> {
  const path = lockPath(folder, number)
  const found = await readHolder(path)
  if (found?.released) return
  const life = found ? checkLife(found, own) : "unknown"
  if (life === "dead" || (life === "unknown" && !(await beats(path, watchMs)))) return
  // The file was just being created at the first read; its content is there by now.
  const holder = found ?? (await readHolder(path))
  const who = holder
    ? `process ${holder.pid}${holder.host === own.host ? "" : ` on ${holder.host}`} since ${holder.since}`
    : "a process that is just starting"
  const way = holder?.url
    ? `It is served at ${holder.url}: \`umbra push\`, \`umbra submit\`, \`umbra jobs\` and others work through the server. For commands that open the folder themselves (run, resume, serve, db restored)`
    : "Only one process at a time can use a folder:"
  throw new UmbraError(
    "E503",
    `${folder} is in use by ${who}. ${way} stop that process, choose another folder, or use PostgreSQL to share.`,
    { details: { folder, ...(holder ? shown(holder) : {}) } },
  )
}

function shown({ pid, host, since, url }: LockHolder) {
  return { pid, host, since, ...(url === undefined ? {} : { url }) }
}

/** Returns true as soon as the file is touched; false if it was not touched within the time. */
async function beats(path: string, watchMs: number): Promise<boolean> {
  const touchedAt = () =>
    stat(path).then(
      found => found.mtimeMs,
      () => 0,
    )
  const before = await touchedAt()
  const step = Math.min(200, watchMs)
  for (let watched = 0; watched < watchMs; watched += step) {
    await new Promise(resolve => setTimeout(resolve, step))
    if ((await touchedAt()) !== before) return true
  }
  return false
}

/** false: another process created it first. */
async function create(path: string, own: LockHolder): Promise<boolean> {
  try {
    await writeFile(path, JSON.stringify(own), { flag: "wx" })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false
    // The file may be there and empty (full disk): the next process would take it for one that is just starting.
    await rm(path, { force: true }).catch(() => {})
    throw error
  }
}

/** null: not written yet, or removed. */
async function readHolder(path: string): Promise<LockHolder | null> {
  try {
    return JSON.parse(await readFile(path, "utf8")) as LockHolder
  } catch {
    return null
  }
}

async function newestHolder(folder: string): Promise<{ number: number; holder: LockHolder | null }> {
  const number = await newestLock(folder).catch(() => 0)
  return { number, holder: number === 0 ? null : await readHolder(lockPath(folder, number)) }
}

/** 0: no process has ever held this folder. */
async function newestLock(folder: string): Promise<number> {
  return Math.max(0, ...(await lockNumbers(folder)))
}

async function lockNumbers(folder: string): Promise<readonly number[]> {
  const names = await readdir(folder)
  return names.flatMap(name => /^lock\.(\d+)$/.exec(name)?.[1] ?? []).map(Number)
}

async function removeOlder(folder: string, mine: number): Promise<void> {
  const older = (await lockNumbers(folder)).filter(number => number < mine)
  await Promise.all(older.map(number => rm(lockPath(folder, number), { force: true })))
}

function lockPath(folder: string, number: number): string {
  return join(folder, `lock.${number}`)
}
