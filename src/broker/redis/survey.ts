import { WORKERS } from "./keys.ts"
import { isNoGroup, type Link } from "./link.ts"
import type { Reply } from "./resp.ts"
import { type Fields, labelOf } from "./wire.ts"

/** A task as it lies in its handler's stream. */
export interface Found {
  readonly handler: string
  readonly entry: string
  /** Of whoever sent it. */
  readonly epoch: number
  /** Who was handed it; null: nobody yet. */
  readonly holder: string | null
}

/** What lies in the streams of these handlers, by the names of the tasks. They are short: see window.ts. */
export async function survey(link: Link, handlers: Iterable<string>): Promise<Map<string, Found>> {
  const found = new Map<string, Found>()
  for (const handler of handlers) {
    const { keys } = link
    if (keys === null) break
    const stream = keys.tasks(handler)
    // The entries first: who is handed one afterwards is seen with it, who has ended one is not missed for it.
    const entries = await allOf(link, from => ["XRANGE", stream, from, "+", "COUNT", PAGE])
    const pending = await allOf(link, from => ["XPENDING", stream, WORKERS, from, "+", PAGE]).catch(
      noneIfNoGroup,
    )
    const holders = new Map(pending.map(row => [row[0] as string, row[1] as string]))
    for (const [entry, fields] of entries as [string, Fields][]) {
      const label = labelOf(fields)
      // Nobody's task: whoever is handed it drops it.
      if (label === null) continue
      const { name, epoch } = label
      found.set(name, { handler, entry, epoch, holder: holders.get(entry) ?? null })
    }
  }
  return found
}

const PAGE = "1000"

/** All rows of a command that answers in pages, each row beginning with its entry's id. */
async function allOf(link: Link, page: (from: string) => string[]): Promise<readonly Reply[][]> {
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
