/**
 * Waits for a folder that another process has just opened: another command holds it for a second, and `umbra serve`
 * publishes its address as soon as it answers. So commands typed one after another, including `umbra serve &`, need no
 * sleep in between. A process that has held the folder for longer, or that has announced to keep it, is reported at once.
 */
import { resolve } from "node:path"
import { UmbraError } from "../../errors.ts"
import { announceServer, findHolder } from "../../journal/folder-lock.ts"
import { isPostgres } from "../../journal/location.ts"
import { paintFor } from "../output/terminal.ts"

export interface Turn {
  /** A server that has the folder ends the wait; the next try finds it. */
  readonly through?: boolean
  /** The wait ends because the process received a signal to stop. */
  readonly isOver?: () => boolean
}

/** Starting a server takes a second, and ten times that on a busy machine. */
const JUST_MS = 30_000
const LOOK_MS = 100

/** Retries `open` while it fails because the folder was just opened. */
export async function inTurn<T>(open: () => Promise<T>, turn: Turn = {}): Promise<T> {
  const { through = false, isOver = () => false } = turn
  for (let tries = 1; ; tries++) {
    try {
      return await open()
    } catch (error) {
      const held = heldFolder(error)
      if (held === null || !isRecent(held) || isOver()) throw error
      if (held.url === null || (held.url !== undefined && !through)) throw error
      if (tries === 1 && process.stderr.isTTY)
        process.stderr.write(
          paintFor(process.stderr).dim(
            `Waiting for process ${held.pid}, which has just opened ${held.folder}.\n`,
          ),
        )
      await changed(held, isOver)
    }
  }
}

/** Announces that this process holds the folder for as long as a job takes, and that no command can use it. */
export async function keepFolder(location: string): Promise<void> {
  if (!isPostgres(location)) await announceServer(resolve(location), null)
}

interface Held {
  readonly folder: string
  readonly pid: number
  readonly since: string
  readonly url?: string | null
}

function heldFolder(error: unknown): Held | null {
  if (!(error instanceof UmbraError) || error.code !== "E503") return null
  const { details } = error
  return typeof details?.since === "string" ? (details as unknown as Held) : null
}

const isRecent = ({ since }: Held): boolean => Date.now() - Date.parse(since) < JUST_MS

/** Resolves when another process or no process holds it, when a server answers, or when it has been held for long. */
async function changed(held: Held, isOver: () => boolean): Promise<void> {
  do await new Promise(resolve => setTimeout(resolve, LOOK_MS))
  while (!isOver() && isRecent(held) && (await isStillSo(held)))
}

async function isStillSo({ folder, since, url }: Held): Promise<boolean> {
  const holder = await findHolder(folder)
  return holder?.since === since && holder.url === url && url === undefined
}
