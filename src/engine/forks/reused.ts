import { fillReused, type ReusedValues } from "../../core/apply/fork.ts"
import type { ForkRecord } from "../../core/facts.ts"
import type { Json } from "../../core/json.ts"
import { type JobState, LargeOutput, type Output } from "../../core/state.ts"
import { UmbraError } from "../../errors.ts"
import type { FactRow } from "../../journal/port/journal.ts"
import type { Work } from "../../turns.ts"
import { inTurnsIfMany, type LoadParts, readOutput, readWhole } from "../recovery/fold.ts"

/**
 * Reads what a fork has taken over from other jobs into its state, which has only its first fact. Outputs that are too
 * large for memory stay in the store, as those of every job. Returns what was read, for another state of the same fork.
 */
export async function readReused(parts: LoadParts, state: JobState, fork: ForkRecord): Promise<ReusedValues> {
  const { journal, largeOutputBytes: inlineBytes } = parts
  const rows = fork.jobs.length === 0 ? [] : await journal.readFacts(fork.jobs, { inlineBytes })
  const outputs = await inTurnsIfMany(rows, () => reusedOutputs(rows, resultSeqs(fork)))
  fillReused(state, fork, { outputs, lists: new Map() })
  const lists = new Map<number, readonly Json[]>()
  const bySeq = new Map(rows.map(row => [row.seq, row]))
  for (const entry of fork.nodes) {
    if (!("list" in entry) || "input" in entry.list) continue
    const { list, node } = entry
    const items =
      "node" in list
        ? await readWhole(state.outputs[list.node] ?? null, large => readOutput(journal, "", large))
        : await readList(parts, bySeq.get(list.seq), fork.jobs[list.job]!, list.seq)
    lists.set(node, items as readonly Json[])
  }
  const values = { outputs, lists }
  fillReused(state, fork, values)
  return values
}

function resultSeqs({ nodes }: ForkRecord): ReadonlySet<number> {
  const seqs = new Set<number>()
  for (const entry of nodes) {
    if ("list" in entry) for (const [, , seq] of entry.items) seqs.add(seq)
    else if ("seq" in entry) seqs.add(entry.seq)
  }
  return seqs
}

/** All jobs that a fork refers to are in one partition, so a seq belongs to one fact. */
function* reusedOutputs(
  rows: readonly FactRow[],
  wanted: ReadonlySet<number>,
): Work<ReadonlyMap<number, Output>> {
  const outputs = new Map<number, Output>()
  for (const { seq, jobId, data, bytes } of rows) {
    if (!wanted.has(seq)) continue
    outputs.set(seq, data === null ? new LargeOutput(seq, bytes, jobId) : resultIn(data))
    yield
  }
  for (const seq of wanted)
    if (!outputs.has(seq))
      throw new UmbraError("E507", `Fact ${seq}, which a fork refers to, does not exist any more.`)
  return outputs
}

/** The result that a fact contains: the output of an attempt, or the data of a signal. */
export function resultIn(data: string): Json {
  const fact = JSON.parse(data) as { readonly output?: Json; readonly data?: Json }
  return fact.output === undefined ? (fact.data ?? null) : fact.output
}

async function readList(
  { journal }: LoadParts,
  row: FactRow | undefined,
  jobId: string,
  seq: number,
): Promise<readonly Json[]> {
  const data = row?.data ?? (await journal.readFact(jobId, seq))
  if (data === null)
    throw new UmbraError(
      "E507",
      `Fact ${seq} of job ${jobId}, which a fork refers to, does not exist any more.`,
    )
  return (JSON.parse(data) as { readonly items: readonly Json[] }).items
}
