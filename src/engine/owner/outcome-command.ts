import type { Outcome } from "../../broker/port.ts"
import type { AttemptRef, AttemptTimes, Command } from "../../core/commands.ts"
import type { Fault } from "../../core/faults.ts"
import type { ProviderTerms } from "../providers/providers.ts"

/** The command that an attempt's outcome becomes. `terms`: of the node's provider, if it has one that is known here. */
export function outcomeCommand(
  at: AttemptRef,
  outcome: Exclude<Outcome, { type: "child" }>,
  terms: (ProviderTerms & { readonly provider: string }) | undefined,
  times: AttemptTimes,
): Command {
  if (outcome.type === "completed") return completed(at, outcome, times)
  const reported = { ...at, times, ...(outcome.usage === undefined ? {} : { usage: outcome.usage }) }
  switch (outcome.type) {
    case "failed":
      return { type: "failed", ...reported, fault: outcome.fault }
    case "waiting":
      return { type: "waiting", ...reported, waiting: outcome.waiting }
    case "submitted": {
      if (terms === undefined) return { type: "failed", ...reported, fault: noProvider }
      const { provider, poll, ttlSeconds } = terms
      return { type: "submitted", ...reported, provider, externalId: outcome.externalId, poll, ttlSeconds }
    }
  }
}

/** By far the commonest command is built by hand: spreads show in profiles. */
function completed(
  at: AttemptRef,
  outcome: Extract<Outcome, { type: "completed" }>,
  times: AttemptTimes,
): Command {
  const { output, usage } = outcome
  const { node, attempt } = at
  if (usage === undefined && at.item === undefined) return { type: "completed", node, attempt, output, times }
  return { type: "completed", ...at, output, times, ...(usage === undefined ? {} : { usage }) }
}

const noProvider: Fault = {
  code: "E421",
  message:
    "The handler reported that the work was submitted, but the node has no provider to poll. " +
    "Add `provider:` to the node.",
  retryable: false,
}
