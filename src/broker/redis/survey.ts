import { isNoGroup, type Link } from "./client/link.ts"
import type { Reply } from "./client/resp.ts"
import { WORKERS } from "./keys.ts"
import { decodeLabel, type Fields } from "./wire.ts"

/** A task as it lies in the stream of its handler. */
export interface Found {
  readonly handler: string
  readonly entry: string
  /** The epoch of the sender. */
  readonly epoch: number
  /** The worker to which it was delivered; null: not delivered yet. */
  readonly holder: string | null
}

export interface Survey {
  /** By the names of the tasks. */
  readonly found: ReadonlyMap<string, Found>
  /** Duplicates of these tasks that no live worker holds: each would be run again. */
  readonly spare: readonly (readonly [name: string, Found])[]
}

type IsLive = (worker: string) => boolean

/** Reads the streams of these handlers. They are short: see window.ts. */
export async function survey(link: Link, handlers: Iterable<string>, isLive: IsLive): Promise<Survey> {
  const found = new Map<string, Found>()
  const spare: (readonly [string, Found])[] = []
  for (const handler of handlers) {
    const { keys } = link
    if (keys === null) break
    for (const [name, place] of await surveyOne(link, keys.tasks(handler), handler)) {
      const other = found.get(name)
      const isFirst = other === undefined || !isBefore(other, place, isLive)
      const [best, worse] = isFirst ? [place, other] : [other, place]
      found.set(name, best)
      if (worse !== undefined && rank(worse, isLive) < IN_HAND) spare.push([name, worse])
    }
  }
  return { found, spare }
}

/**
 * A task was sent twice because an entry in transit was considered lost. The entry that a live worker holds
 * takes precedence.
 */
function isBefore(a: Found, b: Found, isLive: IsLive): boolean {
  const difference = rank(a, isLive) - rank(b, isLive)
  return difference > 0 || (difference === 0 && a.epoch > b.epoch)
}

function rank({ holder }: Found, isLive: IsLive): number {
  if (holder === null) return 1
  return isLive(holder) ? IN_HAND : 0
}

const IN_HAND = 2

async function surveyOne(link: Link, stream: string, handler: string): Promise<[string, Found][]> {
  // The entries first: an entry delivered afterwards is seen as pending too, and one that has ended is not
  // missed.
  const entries = await readAllPages(link, from => ["XRANGE", stream, from, "+", "COUNT", PAGE])
  const pending = await readAllPages(link, from => ["XPENDING", stream, WORKERS, from, "+", PAGE]).catch(
    noneIfNoGroup,
  )
  const holders = new Map(pending.map(row => [row[0] as string, row[1] as string]))
  return (entries as [string, Fields][]).flatMap(([entry, fields]) => {
    const label = decodeLabel(fields)
    // Not a task: the worker that receives it drops it.
    if (label === null) return []
    return [[label.name, { handler, entry, epoch: label.epoch, holder: holders.get(entry) ?? null }]]
  })
}

const PAGE = "1000"

/** All rows of a command that answers in pages. Each row begins with the id of its entry. */
async function readAllPages(link: Link, page: (from: string) => string[]): Promise<readonly Reply[][]> {
  const rows: Reply[][] = []
  for (let from = "-"; ; ) {
    const found = (await link.send(page(from))) as Reply[][]
    rows.push(...found)
    if (found.length < Number(PAGE)) return rows
    from = `(${found.at(-1)![0]}`
  }
}

function noneIfNoGroup(error: unknown): readonly Reply[][] {
  if (isNoGroup(error)) return []
  throw error
}
