/** Views of executions as programs read them, over HTTP and with `--json`: times are ISO 8601 text. */
import { isoTime } from "../engine/clock.ts"
import type { InvocationView, LineageView, MessageView } from "./lineage.ts"
import type { DeadLetter, DeadLetterPage } from "./queries.ts"

type Written<T, Time extends keyof T> = Omit<T, Time> & { readonly [K in Time]: string }

export type WrittenMessage = Written<Omit<MessageView, "invocations">, "at"> & {
  readonly invocations: readonly Written<InvocationView, "at">[]
}

export type WrittenLineage = ReturnType<typeof isoLineage>

export type WrittenDeadLetter = Written<DeadLetter, "failed_at">

export type WrittenDeadLetterPage = ReturnType<typeof isoDeadLetters>

export function isoLineage({ message, inputs, outputs, is_cut }: LineageView) {
  return {
    /** null: the job has no such message yet, and has not ended. */
    message: message === null ? null : isoMessage(message),
    inputs: inputs.map(isoMessage),
    outputs: outputs.map(isoMessage),
    is_cut,
  }
}

function isoMessage(message: MessageView): WrittenMessage {
  return {
    ...message,
    at: isoTime(message.at),
    invocations: message.invocations.map(each => ({ ...each, at: isoTime(each.at) })),
  }
}

export function isoDeadLetters({ dead_letters, next }: DeadLetterPage) {
  const written = (each: DeadLetter): WrittenDeadLetter => ({ ...each, failed_at: isoTime(each.failed_at) })
  return { dead_letters: dead_letters.map(written), next }
}
