import { UmbraError } from "../../errors.ts"
import type { MessageKey } from "../../journal/port/pipelines.ts"
import type { RunParts } from "./run.ts"

export interface InitialMessage {
  readonly route: number
  /** JSON */
  readonly body: string
}

type InitialContext = Pick<RunParts, "plan" | "store" | "names" | "isReplay" | "context">

/** The bodies may be large. */
const PAGE = 50

/**
 * The initial messages of an execution: the dead letters that it replays, or those of its definition. The
 * same in every process.
 */
export async function* initialMessages(of: InitialContext): AsyncGenerator<InitialMessage> {
  if (of.isReplay) {
    yield* deadLetters(of)
    return
  }
  const scope = { names: { ...of.names }, node: () => undefined, nodeIds: () => [] }
  for (const { route, body } of of.plan.init) yield { route, body: JSON.stringify(body.render(scope)) }
}

async function* deadLetters({ store, context: { jobId } }: InitialContext): AsyncGenerator<InitialMessage> {
  let after: (MessageKey & { readonly execution: number }) | undefined
  for (;;) {
    const from = after === undefined ? {} : { after }
    const page = await store.readReplayed({ replayedBy: jobId, limit: PAGE, ...from })
    if (after === undefined && page.length === 0)
      throw new UmbraError(
        "E708",
        `The dead letters that job ${jobId} was to begin with no longer exist: their job was removed.`,
      )
    for (const { route, body } of page) yield { route, body }
    after = page.at(-1)
    if (page.length < PAGE) return
  }
}
