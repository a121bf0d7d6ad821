/** Removes what is no longer used: keys of earlier runs of the server, and consumers that will not return. */

import { isNoGroup, type Link } from "./client/link.ts"
import type { Reply } from "./client/resp.ts"
import { type Keys, OWNERS, WORKERS } from "./keys.ts"

/** Keys of an earlier run, restored from an old snapshot. */
export async function sweepKeys(link: Link, keys: Keys): Promise<void> {
  for (let cursor = "0"; ; ) {
    const scan = ["SCAN", cursor, "MATCH", keys.ofAllRuns, "COUNT", "1000"]
    const [next, found] = (await link.send(scan)) as [string, string[]]
    const old = found.filter(key => keys.isOfAnotherRun(key))
    if (old.length > 0) await link.send(["UNLINK", ...old])
    if (next === "0") return
    cursor = next
  }
}

interface Sweep {
  readonly handlers: Iterable<string>
  readonly partitions: Iterable<number>
  /** Consumers that may still read: workers, and this engine. */
  readonly isLive: (consumer: string) => boolean
}

/** Only consumers without pending entries: deleting a consumer also deletes its pending entries. */
export async function sweepConsumers(
  link: Link,
  keys: Keys,
  { handlers, partitions, isLive }: Sweep,
): Promise<void> {
  for (const handler of handlers) await sweepGroup(link, keys.tasks(handler), WORKERS, isLive)
  for (const partition of partitions) await sweepGroup(link, keys.results(partition), OWNERS, isLive)
}

async function sweepGroup(
  link: Link,
  stream: string,
  group: string,
  isLive: (consumer: string) => boolean,
): Promise<void> {
  const rows = await link
    .send(["XINFO", "CONSUMERS", stream, group])
    .catch(error => (isNoGroup(error) || /no such key/.test(String(error)) ? [] : Promise.reject(error)))
  for (const row of rows as Reply[][]) {
    const consumer = Object.fromEntries(pairs(row)) as { name: string; pending: number; idle: number }
    if (consumer.pending === 0 && consumer.idle > LEFT_MS && !isLive(consumer.name))
      await link.send(["XGROUP", "DELCONSUMER", stream, group, consumer.name])
  }
}

function pairs(row: readonly Reply[]): [string, Reply][] {
  return row.flatMap((value, at) =>
    at % 2 === 0 ? [[value as string, row[at + 1]!] as [string, Reply]] : [],
  )
}

/**
 * Longer than a process can be suspended and still be considered alive. Only names without entries are
 * deleted, so the exact value does not matter.
 */
const LEFT_MS = 60_000
