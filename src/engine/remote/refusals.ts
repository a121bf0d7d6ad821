import type { RefusalReason } from "../../core/commands.ts"
import { UmbraError } from "../../errors.ts"
import type { Answer } from "./inbox.ts"

/** The error that a caller gets for an owner's refusal of a command. */
const refusals: {
  readonly [reason in RefusalReason | "no_such_job" | "unreadable" | "no_place"]?: readonly [
    "E301" | "E302" | "E303" | "E307" | "E312" | "E316" | "E319" | "E507" | "E611" | "E702",
    string,
  ]
} = {
  no_such_job: ["E301", "does not exist"],
  unreadable: ["E507", "cannot be read; the log of the engine that owns it says why"],
  no_place: [
    "E702",
    "cannot be retried now: the limit of concurrent pipeline executions is reached (UMBRA_MAX_EXECUTIONS); try again when one has ended",
  ],
  job_ended: ["E302", "has already ended"],
  already_started: [
    "E319",
    "has started, so its start time cannot be changed; cancel it, and submit it again",
  ],
  job_not_ended: ["E303", "has not ended yet; cancel it first"],
  job_final: ["E307", "has completed or is deleted, so the command changes nothing"],
  stale_token: ["E312", "has been resumed since its resume token was read; read its graph again"],
  other_schema: ["E312", "waits for the signal with another schema than before; send it again"],
  job_changed: ["E316", "has ended or been retried since the bulk operation began"],
  nothing_to_retry: [
    "E307",
    "has completed all its nodes; its output template failed, so submit it again with a corrected workflow",
  ],
}

/** Throws unless the command was accepted, or the job was already in the requested state. */
export function throwIfRefused(answer: Answer, jobId: string): void {
  if ("refused" in answer && answer.refused !== "unchanged") throw refusalError(answer.refused, jobId)
}

export function refusalError(reason: string, jobId: string): UmbraError {
  const [code, text] =
    refusals[reason as RefusalReason] ?? (["E302", `refused the command (${reason})`] as const)
  return new UmbraError(code, `Job ${jobId} ${text}.`)
}
