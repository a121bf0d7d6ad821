/**
 * One process per folder: two engines on one embedded database would fence each other in turn, and its own locks do not
 * tell who holds it.
 *
 * The lock is the file `lock.N` with the highest N. Invariants:
 * 1. N only rises. A file is made with O_EXCL, so of several starters that saw the same dead lock.N exactly one
 *    makes lock.N+1; whoever made a file looks again and gives way when a higher one is there.
 * 2. The highest file is never removed, only marked as released: no number is used twice, so a slow starter cannot
 *    mistake an old state for the present one.
 * 3. A holder that can be seen (same boot, same pid namespace) is judged by its pid and start time, at once. One that
 *    cannot (another container or machine sharing the folder) is judged by its beat: it touches the file every
 *    second, and a file untouched for five is a dead holder's.
 * A listening socket would be freed by the kernel, but its stale file has to be removed before the next can bind, and
 * two starters doing so is the race this avoids (docs/decisions/0006-one-process-per-folder.md).
 */
import { readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { UmbraError } from "../errors.ts"
import { isVisible, lifeOf, ownIdentity, type ProcessIdentity } from "../process-identity.ts"

export interface LockHolder extends ProcessIdentity {
  /** ISO 8601. */
  readonly since: string
  readonly released?: boolean
  /** Where the holder answers, if it is a server; null: it is none. Absent: it has not said so yet. */
  readonly url?: string | null
}

export interface FolderLock {
  release(): Promise<void>
}

export interface FolderLockOptions {
  /** Called once when the lock turns out to be somebody else's: stop touching the folder at once. */
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
    // On a slow disk two beats overlap: only the first to see it tells.
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

/** In one step: whoever reads it sees the old content or the new one. */
async function rewrite(path: string, holder: LockHolder): Promise<void> {
  const draft = `${path}.draft`
  await writeFile(draft, JSON.stringify(holder))
  await rename(draft, path)
}

/** Writes into this process's lock where it answers, or that it does not; the folder must be held by it. */
export async function announceServer(folder: string, url: string | null): Promise<void> {
  const number = await newestLock(folder)
  const holder = await readHolder(lockPath(folder, number))
  const { pid, started } = ownIdentity()
  // Lost to another process in this very moment: the database will say so.
  if (holder === null || holder.released || holder.pid !== pid || holder.started !== started) return
  await rewrite(lockPath(folder, number), { ...holder, url })
}

/**
 * Who has the folder, as far as can be seen from here at once; null: nobody, a process that is known to be dead, or one
 * that cannot be seen, whose address would mean something else here (another container).
 */
export async function holderOf(folder: string): Promise<LockHolder | null> {
  const number = await newestLock(folder).catch(() => 0)
  const holder = number === 0 ? null : await readHolder(lockPath(folder, number))
  if (holder === null || holder.released) return null
  const own = ownIdentity()
  return isVisible(holder, own) && lifeOf(holder, own) !== "dead" ? holder : null
}

/** For a process that reads beside the holder: SQLite shares memory between them, which two machines do not. */
export async function refuseOtherMachine(folder: string, watchMs = WATCH_MS): Promise<void> {
  const number = await newestLock(folder).catch(() => 0)
  const holder = number === 0 ? null : await readHolder(lockPath(folder, number))
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
  const life = found ? lifeOf(found, own) : "unknown"
  if (life === "dead" || (life === "unknown" && !(await beats(path, watchMs)))) return
  // Just made when it was looked at, it has its content by now.
  const holder = found ?? (await readHolder(path))
  const who = holder
    ? `process ${holder.pid}${holder.host === own.host ? "" : ` on ${holder.host}`} since ${holder.since}`
    : "a process that is just starting"
  const way = holder?.url
    ? `It is served at ${holder.url}: \`umbra push\`, \`umbra submit\`, \`umbra jobs\` and others work through the server. For what opens the folder itself (run, resume, serve, db restored)`
    : "Only one process at a time can use a folder:"
  throw new UmbraError(
    "E503",
    `${folder} is in use by ${who}. ${way} stop that one, choose another folder, or use PostgreSQL to share.`,
    { details: { folder, ...(holder ? shown(holder) : {}) } },
  )
}

function shown({ pid, host, since, url }: LockHolder) {
  return { pid, host, since, ...(url === undefined ? {} : { url }) }
}

/** True as soon as somebody touches the file; false after watching it in vain. */
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

/** false: somebody else made it first. */
async function create(path: string, own: LockHolder): Promise<boolean> {
  try {
    await writeFile(path, JSON.stringify(own), { flag: "wx" })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false
    throw error
  }
}

/** null: not written yet, or gone. */
async function readHolder(path: string): Promise<LockHolder | null> {
  try {
    return JSON.parse(await readFile(path, "utf8")) as LockHolder
  } catch {
    return null
  }
}

/** 0: nobody has ever held this folder. */
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
