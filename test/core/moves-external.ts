/** Moves of operations at providers: what is submitted, and what is heard of it. */
import type { OperationResult } from "../../src/core/commands.ts"
import type { PollPolicy } from "../../src/core/plan.ts"
import type { Action, News, Result } from "./actions.ts"
import { newsInModel } from "./model-external.ts"
import { nextPollDelay } from "./model-node.ts"
import { jobResultOf, type Move, type Stage } from "./moves.ts"

const polls = (maxErrors: number | null): PollPolicy => ({ seconds: [30, 60, 120], jitter: 0.5, maxErrors })

export function submittedOf(
  stage: Stage,
  task: { node: number; attempt: number },
  { polls: asks, ttl }: Extract<Result, { kind: "submitted" }>,
): Move {
  const { model, now, random } = stage
  const id = stage.graph.nodes[task.node]?.id ?? "nobody"
  const externalId = stage.fresh("operation")
  const poll = asks ? polls(null) : null
  return {
    command: { type: "submitted", ...task, provider: "acme", externalId, poll, ttlSeconds: ttl },
    inModel: () => {
      if (!model.accepts(id, task.attempt, false)) return false
      const next = asks ? { next_poll_at: now + nextPollDelay(model.nodes.get(id)!, 0.5, random) } : {}
      const until = ttl === null ? {} : { until: now + ttl * 1000 }
      model.submitted(id, { kind: "external", provider: "acme", external_id: externalId, ...next, ...until })
      return true
    },
  }
}

/** null: there was never an operation. */
export function newsOf(stage: Stage, action: Extract<Action, { do: "news" }>): Move | null {
  const { model, now, random, graph } = stage
  const { pick, token: which, byPoll } = action
  const waiting = graph.nodes.flatMap(({ id }, node) => {
    const { waits, unfollowed } = model.nodes.get(id)!
    const externalId = waits?.kind === "external" ? waits.external_id : unfollowed
    return externalId === null ? [] : [{ node, id, externalId }]
  })
  const anything = { node: pick % graph.nodes.length, id: graph.nodes[pick % graph.nodes.length]!.id }
  const ever = stage.operations[pick % Math.max(1, stage.operations.length)]
  if (ever === undefined) return null
  const { node, id, externalId } =
    (action.of === "current" ? waiting[pick % Math.max(1, waiting.length)] : undefined) ??
    ({ ...anything, externalId: ever } as const)
  const token = which === undefined ? {} : { token: which === "current" ? model.token() : "r-1" }
  const asks = model.nodes.get(id)!.pollAt !== null
  const poll = asks ? polls(action.maxErrors) : null
  const result = resultOf(stage, action.news)
  const extra = result.type === "completed" ? jobResultOf(stage, "output") : {}
  return {
    command: {
      type: "external",
      node,
      externalId,
      source: byPoll ? "poll" : "webhook",
      poll,
      result,
      ...(token.token === undefined ? {} : { resumeToken: token.token }),
    },
    result: extra,
    inModel: () =>
      newsInModel(
        model,
        id,
        { externalId, byPoll, poll, result: result as never, ...token },
        { now, random, extra },
      ),
  }
}

function resultOf(stage: Stage, news: News): OperationResult {
  const fault = { code: "E401", message: "no luck", retryable: news !== "final" }
  switch (news) {
    case "completed":
      return { type: "completed", output: stage.fresh("made") }
    case "failed":
    case "final":
      return { type: "failed", fault }
    case "running":
      return { type: "running" }
    case "preview":
      return { type: "running", preview: stage.fresh("half") }
    case "error":
      return { type: "error", fault }
    case "last_error":
      return { type: "error", fault, isFinal: true }
    case "hint":
      return { type: "hint" }
    case "postponed":
      return { type: "postponed", until: stage.now + 5000 }
  }
}
