import type { Outcome, Task } from "../broker/port.ts"
import type { Command } from "../core/commands.ts"
import type { Fault } from "../core/faults.ts"
import type { ProviderTerms } from "./providers.ts"

/** What an attempt's outcome asks of its job. `terms`: of the node's provider, if it has one that is known here. */
export function commandOf(task: Task, outcome: Outcome, terms: ProviderTerms | undefined): Command {
  const { node, attempt, provider } = task
  switch (outcome.type) {
    case "completed": {
      const { output, usage } = outcome
      return { type: "completed", node, attempt, output, ...(usage === undefined ? {} : { usage }) }
    }
    case "failed":
      return { type: "failed", node, attempt, fault: outcome.fault }
    case "waiting":
      return { type: "waiting", node, attempt, waiting: outcome.waiting }
    case "submitted": {
      if (provider === undefined || terms === undefined)
        return { type: "failed", node, attempt, fault: nobodyToAsk }
      const { poll, ttlSeconds } = terms
      const { externalId } = outcome
      return { type: "submitted", node, attempt, provider, externalId, poll, ttlSeconds }
    }
  }
}

const nobodyToAsk: Fault = {
  code: "E421",
  message:
    "The handler answered that the work was submitted, but the node has no provider to follow it with. " +
    "Add `provider:` to the node.",
  retryable: false,
}
