/** What news of an operation at a provider mean to the model. */
import type { Model } from "./model.ts"
import { type JobResult, type ModelNews, nextPollDelay } from "./model-node.ts"

/** X4: news of an operation count for the node that waits for it, and only while it does. */
export function newsInModel(
  model: Model,
  id: string,
  news: ModelNews,
  { now, random, extra = {} }: { now: number; random: number; extra?: JobResult },
): boolean {
  const node = model.nodes.get(id)
  if (model.isOver() || node === undefined) return false
  const isFollowed = node.waits?.kind === "external"
  const operation = node.waits?.kind === "external" ? node.waits.external_id : node.unfollowed
  if (operation !== news.externalId) return false
  // It could not be looked at any more, and is about to be submitted again: only its result is news.
  if (!isFollowed && news.result.type !== "completed") return false
  if (news.token !== undefined && news.token !== model.token()) return false
  const { result, byPoll, poll } = news
  if (!isFollowed) overtaken(model, id)
  if (result.type === "completed") model.completed(id, result.output, extra)
  if (result.type === "failed") {
    node.operations++
    model.failed(id, result.fault, now, random)
  }
  const looked = byPoll && poll !== null && (result.type === "running" || result.type === "error")
  const isTooMany = poll?.maxErrors != null && node.pollErrors + 1 > poll.maxErrors
  if (result.type === "error" && (isTooMany || result.isFinal === true)) {
    model.failed(id, result.fault, now, random)
    if (node.state === "FAILED") givenUpOperation(model, id, operation)
    else node.unfollowed = operation
    return true
  }
  if (looked) {
    node.polls++
    node.pollErrors = result.type === "error" ? node.pollErrors + 1 : 0
    node.pollAt = now + nextPollDelay(node, poll.jitter, random)
  }
  if (result.type === "hint" && poll !== null) node.pollAt = now
  if (result.type === "postponed" && byPoll && poll !== null) node.pollAt = Math.max(now, result.until)
  if (result.type === "running" && result.preview !== undefined && result.preview !== node.preview)
    model.previewed(id, result.preview)
  return true
}

/** J16: the provider is told. What it does next for this node is something else. */
export function givenUpOperation(model: Model, id: string, externalId: string): void {
  const node = model.nodes.get(id)!
  node.unfollowed = null
  node.operations++
  model.abandoned.push(`${id}:${externalId}`)
}

/** Somebody was to submit again what has ended by now. */
function overtaken(model: Model, id: string): void {
  const node = model.nodes.get(id)!
  const task = `${id}#${node.attempt}`
  if (model.inFlight().has(task)) model.takenBack.push(task)
  model.endedUnanswered(node)
}
