/**
 * Webhooks that had no effect on a node, as log lines of the engine: refused although they name its operation, or later than its end.
 * Read from the store with the log, and never stored as lines. A webhook without a genuine signature is of no node: what it names is
 * not known to be true.
 */
import { apply } from "../../core/apply/apply.ts"
import { shownAttempt } from "../../core/attempt-times.ts"
import type { Graph } from "../../core/plan.ts"
import { findTask, newJobState } from "../../core/state.ts"
import type { RecordedFact } from "../../core/view/events.ts"
import { inTurnsIfMany, type LoadParts, readJob, readJobs } from "../../engine/recovery/fold.ts"
import type { JobWebhook } from "../../journal/port/providers.ts"
import type { Work } from "../../turns.ts"
import type { LogLine } from "./logs.ts"

/** Rows of the store that are read at once, and by one page. */
const ROWS = 200
const MAX_ROWS = 2000
/** A provider that repeats a webhook must not fill the log of its job. */
const PER_OPERATION = 10

/** The ids of the nodes of a job, and which attempt submitted an operation. */
interface Submissions {
  readonly nodes: readonly string[]
  readonly attempts: ReadonlyMap<string, number>
}

async function readSubmissions(parts: LoadParts, jobId: string): Promise<Submissions> {
  const rows = (await readJobs(parts, [jobId])).get(jobId)
  if (rows === undefined) return { nodes: [], attempts: new Map() }
  const { plan, facts } = await readJob(parts, rows)
  return inTurnsIfMany(facts, () => submissionsIn(plan, facts))
}

function* submissionsIn(graph: Graph, facts: readonly RecordedFact[]): Work<Submissions> {
  const state = newJobState(graph)
  const attempts = new Map<string, number>()
  for (const { fact } of facts) {
    apply(state, fact)
    if (fact.type === "node_waiting" || fact.type === "item_waiting") {
      const { waiting } = fact
      const place = findTask(state, fact)
      if (waiting.kind === "external" && place !== null) {
        const item = fact.type === "item_waiting" ? fact.item : -1
        const key = operationKey({ ...waiting, externalId: waiting.external_id, node: fact.node, item })
        attempts.set(key, shownAttempt(place.state, place.position))
      }
    }
    yield
  }
  return { nodes: graph.nodes.map(({ id }) => id), attempts }
}

interface OperationOf {
  readonly provider: string
  readonly externalId: string
  readonly node: number
  readonly item: number
}

function operationKey({ provider, externalId, node, item }: OperationOf): string {
  return JSON.stringify([provider, externalId, node, item])
}

/** The same source as `EngineLines`: its head is the next line, until it is taken. */
export class WebhookLines {
  readonly #parts: LoadParts
  readonly #jobId: string
  readonly #accepts: (line: Omit<LogLine, "id">) => boolean
  #submissions: Submissions | null = null
  #rows: readonly JobWebhook[] = []
  #next = 0
  #read = 0
  #isAtEnd = false
  /** The webhook that was taken last. */
  #after: number

  constructor(
    parts: LoadParts,
    jobId: string,
    { accepts, after }: { readonly accepts: (line: Omit<LogLine, "id">) => boolean; readonly after: number },
  ) {
    this.#parts = parts
    this.#jobId = jobId
    this.#accepts = accepts
    this.#after = after
  }

  get position(): { readonly webhook: number } {
    return { webhook: this.#after }
  }

  async head(): Promise<Omit<LogLine, "id"> | "bound" | null> {
    for (;;) {
      for (; this.#next < this.#rows.length; this.take()) {
        const line = await this.#line(this.#rows[this.#next]!)
        if (line !== undefined) return line
      }
      if (this.#isAtEnd) return null
      if (this.#read >= MAX_ROWS) return "bound"
      const query = { jobId: this.#jobId, after: this.#after, limit: ROWS, perOperation: PER_OPERATION }
      this.#rows = await this.#parts.journal.providers.jobWebhooks(query)
      this.#next = 0
      this.#read += this.#rows.length
      this.#isAtEnd = this.#rows.length < ROWS
    }
  }

  take(): void {
    this.#after = this.#rows[this.#next++]!.id
  }

  /** Several nodes may wait for one operation: the line of the first that is selected. */
  async #line(webhook: JobWebhook): Promise<Omit<LogLine, "id"> | undefined> {
    this.#submissions ??= await readSubmissions(this.#parts, this.#jobId)
    const { nodes, attempts } = this.#submissions
    return webhook.tasks
      .map(([node, item]) => {
        const attempt = attempts.get(operationKey({ ...webhook, node, item }))
        return {
          ...{ at: webhook.receivedAt, source: "engine" as const, node: nodes[node]! },
          ...(item >= 0 && { item }),
          ...(attempt !== undefined && { attempt }),
          ...webhookLine(webhook),
        }
      })
      .find(this.#accepts)
  }
}

function webhookLine(webhook: JobWebhook): Pick<LogLine, "level" | "message"> {
  const { verdict, reason, externalId, provider } = webhook
  if (verdict === "refused") return { level: "warn", message: `webhook refused: ${reason}` }
  return {
    level: "info",
    message: `webhook ignored: operation ${externalId} of provider ${provider} had ended`,
  }
}
