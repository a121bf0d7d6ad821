import { type FeedPage, type FeedQuery, type FeedRange, inFeedOrder, type JournalFeed } from "./feed.ts"
import type { MemoryStore } from "./memory-store.ts"
import type { FactRow } from "./port.ts"

/** The feed of a journal in memory: each partition's facts in the order they came. */
export class MemoryFeed implements JournalFeed {
  readonly listen: JournalFeed["listen"]
  readonly #store: () => MemoryStore

  constructor(store: () => MemoryStore, exclusive: boolean) {
    this.#store = store
    this.listen = exclusive ? null : listener => this.#listen(listener)
  }

  async position() {
    return { store: this.#store().id, seqs: this.#seqs() }
  }

  async start({ owner, limit }: { readonly owner: string; readonly limit: number }) {
    const jobs = [...this.#store().jobs.values()]
      .filter(job => job.owner === owner && job.finishedAt === null)
      .map(job => job.id)
    return { seqs: this.#seqs(), jobs: jobs.sort().reverse().slice(0, limit) }
  }

  async read(query: FeedQuery): Promise<FeedPage> {
    const pages = query.ranges.map(range => this.#readRange(range, query))
    return {
      reached: pages.flatMap(({ reached }) => reached),
      facts: pages.flatMap(({ facts }) => facts).sort(inFeedOrder),
    }
  }

  tell(news: string): void {
    for (const listener of this.#store().feedListeners) queueMicrotask(() => listener(news))
  }

  #readRange({ partition, after, upTo }: FeedRange, { owners, limit, inlineBytes }: FeedQuery): FeedPage {
    const { feed, jobs } = this.#store()
    const all = feed[partition] ?? []
    const head = Math.min(upTo ?? Number.POSITIVE_INFINITY, all.at(-1)?.seq ?? 0)
    if (head <= after) return { reached: [], facts: [] }
    // From the end: what is new is little, whatever there is.
    const found = all.slice(all.findLastIndex(fact => fact.seq <= after) + 1)
    const looked = found.filter(fact => fact.seq <= head).slice(0, limit)
    const isMore = looked.length >= limit
    const facts = looked.flatMap(fact => {
      const owner = jobs.get(fact.jobId)?.owner
      if (owner === undefined || owners?.includes(owner) === false) return []
      return [{ ...fact, partition, owner, data: fact.bytes <= inlineBytes ? fact.data : null }]
    })
    const seq = isMore ? looked.at(-1)!.seq : head
    return { reached: [{ partition, seq, looked: looked.length, isMore }], facts }
  }

  #seqs(): number[] {
    return this.#store().feed.map(facts => facts.at(-1)?.seq ?? 0)
  }

  async #listen(listener: (news: string) => void) {
    const { feedListeners } = this.#store()
    feedListeners.add(listener)
    return async () => void feedListeners.delete(listener)
  }
}

/** A partition's facts come in order, except that what was sent again is not there twice. */
export function addToFeed(store: MemoryStore, partition: number, fact: FactRow): void {
  const facts = store.feed[partition]
  if (facts === undefined) return
  let index = facts.length
  while (index > 0 && facts[index - 1]!.seq > fact.seq) index--
  facts.splice(index, 0, fact)
}
