import type { PipelinePlan } from "../definition/pipeline/plan.ts"
import type { MessageRow, PipelineStore } from "../journal/pipeline-store.ts"
import type { ScopeNames } from "./prepared-adapter.ts"

export interface InitialMessage {
  readonly route: number
  /** JSON */
  readonly body: string
  /** The dead letter that it is. */
  readonly origin: MessageRow | null
}

const PAGE = 500

/** What an execution begins with: the dead letters it replays, or what its definition says. */
export async function* initialMessages(
  plan: PipelinePlan,
  store: PipelineStore,
  of: { readonly jobId: string; readonly names: ScopeNames },
): AsyncGenerator<InitialMessage> {
  let isReplay = false
  let after: (MessageRow & { readonly execution: number }) | undefined
  for (;;) {
    const page = await store.readReplayed({
      replayedBy: of.jobId,
      limit: PAGE,
      ...(after === undefined ? {} : { after }),
    })
    for (const origin of page) yield { route: origin.route, body: origin.body, origin }
    isReplay ||= page.length > 0
    after = page.at(-1)
    if (page.length < PAGE) break
  }
  if (isReplay) return
  const scope = { names: { ...of.names }, node: () => undefined, nodeIds: () => [] }
  for (const { route, body } of plan.init)
    yield { route, body: JSON.stringify(body.render(scope)), origin: null }
}
