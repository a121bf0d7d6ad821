/**
 * A folder that somebody has just opened is worth waiting for: another command has it for a second, and `umbra serve`
 * says where it answers as soon as it does. So commands that are typed one after another, `umbra serve &` among them,
 * need not be timed. Who has had it for longer, or says that it keeps it, is told of at once.
 */
import { resolve } from "node:path"
import { UmbraError } from "../../errors.ts"
import { announceServer, findHolder } from "../../journal/folder-lock.ts"
import { isPostgres } from "../../journal/location.ts"
import { paintFor } from "../output/terminal.ts"

export interface Turn {
  /** A server that has the folder is no reason to wait any longer; what is tried again finds it. */
  readonly through?: boolean
  /** Nobody is there to wait any longer: the process was told to stop. */
  readonly isOver?: () => boolean
}

/** To make a database takes two seconds, and ten times that on a machine that has much else to do. */
const JUST_MS = 30_000
const LOOK_MS = 100

/** `open` is tried again as long as what refuses it is a folder that was just opened. */
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

/** Says that this process has the folder for as long as a job takes, and that nobody can go through it. */
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

/** Resolves when somebody else has it, or nobody, or a server that answers; or when it has been had for long. */
async function changed(held: Held, isOver: () => boolean): Promise<void> {
  do await new Promise(resolve => setTimeout(resolve, LOOK_MS))
  while (!isOver() && isRecent(held) && (await isStillSo(held)))
}

async function isStillSo({ folder, since, url }: Held): Promise<boolean> {
  const holder = await findHolder(folder)
  return holder?.since === since && holder.url === url && url === undefined
}
