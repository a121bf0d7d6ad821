/**
 * The config of a node as it was rendered for one of its attempts, computed again on request from the facts before the
 * attempt. Nothing of it is stored, and no secret is read: templates that use one are rendered with `***` in its place.
 */
import type { LateTemplate } from "../../broker/port.ts"
import { apply } from "../../core/apply/apply.ts"
import { shownAttempt } from "../../core/attempt-times.ts"
import type { Fault } from "../../core/faults.ts"
import type { Json } from "../../core/json.ts"
import { findTask, newJobState, QUEUED, type TaskRef } from "../../core/state.ts"
import { withValueAt } from "../../definition/document/json-value.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import type { FactRow } from "../../journal/port/journal.ts"
import { compileTemplate, defaultLimits } from "../../template/index.ts"
import type { Work } from "../../turns.ts"
import {
  type FoldedJob,
  foldJob,
  inTurnsIfMany,
  type LoadParts,
  readJob,
  readOutput,
  readWhole,
  toLiveJob,
} from "../recovery/fold.ts"
import { largeInputs, renderNode } from "./render.ts"

export interface ConfigQuery {
  /** For a node with `for_each`. */
  readonly item?: number | undefined
  /** As the history of attempts numbers them; default: the last. */
  readonly attempt?: number | undefined
}

export interface NodeConfig {
  readonly node: string
  readonly item: number | null
  readonly attempt: number
  /** null also if `when` is false, and for a node with `for_each` as a whole: each of its items has a config. */
  readonly config: Json
  /** null: the node has no `when`. */
  readonly when: boolean | null
  /** For a node with `for_each`: the number of its items. */
  readonly items: number | null
  /** The seq of the last fact before the attempt. */
  readonly seq: number
  /** Why it cannot be rendered. */
  readonly error: Pick<Fault, "code" | "message"> | null
}

interface Begin {
  /** The index of the last fact before the attempt. */
  readonly index: number
  readonly attempt: number
  readonly fence: number
}

/** `rows`: all facts of the job. */
export async function nodeConfig(
  parts: LoadParts,
  rows: readonly FactRow[],
  id: string,
  query: ConfigQuery,
): Promise<NodeConfig> {
  const { jobId } = rows[0]!
  const { plan, facts } = await readJob(parts, rows)
  const node = plan.positions.get(id)
  if (node === undefined)
    throw new UmbraError("E310", `Job ${jobId} has no node "${id}". Its graph lists its nodes.`)
  const of = { node, item: query.item }
  const begins = await inTurnsIfMany(facts, () => findAttempts(plan, facts, of))
  const begin =
    query.attempt === undefined ? begins.at(-1) : begins.find(({ attempt }) => attempt === query.attempt)
  if (begin === undefined) throw noAttempt(jobId, id, query, begins)
  const folded = await foldJob(parts, rows.slice(0, begin.index + 1))
  const job = toLiveJob(jobId, folded)
  const fetched = new Map<number, Json>()
  for (const large of largeInputs(job, node)) {
    const output = folded.state.outputs[large]!
    fetched.set(large, await readWhole(output, seq => readOutput(parts.journal, jobId, seq)))
  }
  const limits = { maxItems: Number.POSITIVE_INFINITY, templates: defaultLimits }
  const rendered = renderNode(job, { ...of, attempt: begin.fence }, fetched, limits)
  const isSkipped = "skip" in rendered
  return {
    node: id,
    item: query.item ?? null,
    attempt: begin.attempt,
    config: "task" in rendered ? masked(rendered.task.config, rendered.task.late) : null,
    when: plan.nodes[node]!.when === null || "fault" in rendered ? null : !isSkipped,
    items: "items" in rendered ? rendered.items.length : null,
    seq: folded.lastSeq,
    error: "fault" in rendered ? { code: rendered.fault.code, message: rendered.fault.message } : null,
  }
}

/** When each attempt became ready. One that was handed over before it began is found once. */
function* findAttempts(plan: Plan, facts: FoldedJob["facts"], of: TaskRef): Work<Begin[]> {
  const state = newJobState(plan)
  const begins: Begin[] = []
  for (const [index, { fact }] of facts.entries()) {
    apply(state, fact)
    const place = findTask(state, of)
    if (place !== null && place.state.nodeStatus[place.position] === QUEUED) {
      const attempt = shownAttempt(place.state, place.position)
      const fence = place.state.attempt[place.position]!
      if (begins.at(-1)?.attempt !== attempt) begins.push({ index, attempt, fence })
    }
    yield
  }
  return begins
}

const MASK = "***"

function masked(config: Json, late: readonly LateTemplate[]): Json {
  let shown = config
  for (const { path, source, names, nodes } of late) {
    let value: Json = MASK
    try {
      const template = compileTemplate(source)
      const read = template.references.filter(({ name }) => name === "secrets")
      const secrets = Object.fromEntries(read.map(({ path: [name] }) => [String(name), MASK]))
      value = template.render({
        names: { ...names, secrets },
        node: id => (Object.hasOwn(nodes, id) ? nodes[id] : undefined),
        nodeIds: () => Object.keys(nodes),
      })
    } catch {
      // A filter may not accept the mask, for example one that reads JSON.
    }
    shown = withValueAt(shown, path, value)
  }
  return shown
}

function noAttempt(jobId: string, id: string, query: ConfigQuery, begins: readonly Begin[]): UmbraError {
  const what = query.item === undefined ? `Node "${id}"` : `Item ${query.item} of node "${id}"`
  const known =
    begins.length === 0
      ? "has not been ready to run yet"
      : `has no attempt ${query.attempt}; its last is ${begins.at(-1)!.attempt}`
  return new UmbraError("E313", `${what} of job ${jobId} ${known}.`)
}
