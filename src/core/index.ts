/**
 * `umbra/core`: the fold of a job's facts, for browsers and other programs that show a job at any moment. It decides
 * nothing, and loads nothing else.
 *
 *     const state = newState(graph)                    // GET /workflows/{name}/versions/{version}/graph
 *     for (const record of facts) apply(state, record) // GET /jobs/{job}/facts
 *     graphView(state, { now: facts.at(-1).at })       // as GET /jobs/{job}/graph?at=SEQ, with times as numbers
 */
import { apply as applyFact } from "./apply/apply.ts"
import { type CompiledGraph, readGraph } from "./compiled-graph.ts"
import { type FactRecord, toFact } from "./payloads.ts"
import { type JobState, newJobState } from "./state.ts"

export { type ArtifactMention, mentionsInValue } from "./artifacts.ts"
export type { CompiledGraph, CompiledNode } from "./compiled-graph.ts"
export type { FactType } from "./facts.ts"
export type { Json, JsonObject } from "./json.ts"
export type { FactRecord, PayloadField, PayloadRef } from "./payloads.ts"
export type { JobState } from "./state.ts"
export type { JobStatus, NodeStatus } from "./states.ts"
export { Checkpoint } from "./view/checkpoints.ts"
export { type ComparedJob, type ComparedNode, compareJobs, type JobComparison } from "./view/compare.ts"
export { type ItemCounts, type ItemView, itemViews } from "./view/item-view.ts"
export { diffJson, type JsonChange, type JsonDiff } from "./view/json-diff.ts"
export { type LiveGraph, withLive } from "./view/live-view.ts"
export { type ErrorView, type GraphView, graphView, type NodeView, type WaitingOn } from "./view/view.ts"

/** A job before its first fact. */
export function newState(graph: CompiledGraph): JobState {
  return newJobState(readGraph(graph))
}

/** Folds the next fact into the state. A fact of an unknown type is ignored, and counted in `state.unknownFacts`. */
export function apply(state: JobState, record: FactRecord): void {
  applyFact(state, toFact(record))
}
