/**
 * A folder that somebody has just opened is worth waiting for: another command has it for a second, and `umbra serve`
 * says where it answers as soon as it does. So commands that are typed one after another, `umbra serve &` among them,
 * need not be timed. Who has had it for longer is told of at once.
 */
import { UmbraError } from "../../errors.ts"
import { holderOf } from "../../journal/folder-lock.ts"
import { paintFor } from "../terminal.ts"

export interface Turn {
  /** A server that has the folder is no reason to wait any longer; what is tried again finds it. */
  readonly through?: boolean
  /** How long somebody may have had the folder to be waited for. 10,000 unless told. */
  readonly justMs?: number
}

const JUST_MS = 10_000
const LOOK_MS = 100

/** `open` is tried again as long as what refuses it is a folder that was just opened. */
export async function inTurn<T>(
  open: () => Promise<T>,
  { through = false, justMs = JUST_MS }: Turn = {},
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await open()
    } catch (error) {
      const held = heldFolder(error)
      if (held === null || (held.url !== undefined && !through) || !isRecent(held, justMs)) throw error
      if (tries === 1 && process.stderr.isTTY)
        process.stderr.write(
          paintFor(process.stderr).dim(
            `Waiting for process ${held.pid}, which has just opened ${held.folder}.\n`,
          ),
        )
      await changed(held, justMs)
    }
  }
}

interface Held {
  readonly folder: string
  readonly pid: number
  readonly since: string
  readonly url?: string
}

function heldFolder(error: unknown): Held | null {
  if (!(error instanceof UmbraError) || error.code !== "E503") return null
  const { details } = error
  return typeof details?.since === "string" ? (details as unknown as Held) : null
}

const isRecent = ({ since }: Held, justMs: number): boolean => Date.now() - Date.parse(since) < justMs

/** Resolves when somebody else has it, or nobody, or a server that answers; or when it has been had for long. */
async function changed(held: Held, justMs: number): Promise<void> {
  do await new Promise(resolve => setTimeout(resolve, LOOK_MS))
  while (isRecent(held, justMs) && (await isStillSo(held)))
}

async function isStillSo({ folder, since, url }: Held): Promise<boolean> {
  const holder = await holderOf(folder)
  return holder?.since === since && holder.url === url && url === undefined
}
