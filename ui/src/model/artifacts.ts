/** The artifacts that the facts of a job refer to. */
import { type ArtifactMention, type FactRecord, mentionsInValue } from "../../../src/core/index.ts"
import type { Moment, Timeline } from "./timeline.ts"

interface Mention extends ArtifactMention {
  /** The number of facts up to the one that refers to it. */
  readonly index: number
  /** undefined: the input or the output of the job. */
  readonly node: number | undefined
  readonly item: number | undefined
}

/** By timeline: those of its first facts. */
const known = new WeakMap<Timeline, { facts: number; readonly found: Mention[] }>()

/** In the order of their facts. */
export function collectMentions(timeline: Timeline): readonly Mention[] {
  const read = known.get(timeline) ?? { facts: 0, found: [] }
  known.set(timeline, read)
  for (; read.facts < timeline.length; read.facts++) {
    const { job_output, ...own } = timeline.facts[read.facts] as FactRecord & { job_output?: never }
    const index = read.facts + 1
    for (const mention of mentionsInValue(own))
      read.found.push({ ...mention, index, node: own.node, item: own.item })
    for (const mention of mentionsInValue(job_output))
      read.found.push({ ...mention, index, node: undefined, item: undefined })
  }
  return read.found
}

interface Place {
  readonly timeline: Timeline
  readonly moment: Moment
  /** null: the job. */
  readonly node: number | null
  /** null: all items of the node. */
  readonly item: number | null
}

/** Those that a node, or an item of it, refers to at this moment, each once. */
export function mentionsAt({ timeline, moment, node, item }: Place): Mention[] {
  const found = new Map<string, Mention>()
  for (const mention of collectMentions(timeline)) {
    if (mention.index > moment.index) break
    if (node !== null && (mention.node !== node || (item !== null && mention.item !== item))) continue
    const { artifact, name } = mention
    const key = node === null ? artifact : `${artifact} ${mention.item} ${name}`
    if (!found.has(key)) found.set(key, mention)
  }
  // Items end in any order.
  return [...found.values()].sort((a, b) => (a.item ?? -1) - (b.item ?? -1))
}

/** Whether a payload of the node refers to more artifacts than its fact names. */
export function hasMore({ timeline, moment, node }: Omit<Place, "item">): boolean {
  return (timeline.factsByNode.get(node ?? -1) ?? []).some(
    place => place < moment.index && JSON.stringify(timeline.facts[place]).includes('"artifact_count":'),
  )
}
