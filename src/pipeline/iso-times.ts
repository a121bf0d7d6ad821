/** Views of executions as programs read them, over HTTP and with `--json`: times are ISO 8601 text. */
import { isoTime } from "../engine/clock.ts"
import type { InvocationView, LineageView, MessageView } from "./lineage-view.ts"
import type { DeadLetter, DeadLetterPage } from "./queries.ts"

type Written<T, Time extends keyof T> = Omit<T, Time> & { readonly [K in Time]: string }

export type WrittenMessage = Written<Omit<MessageView, "invocations">, "at"> & {
  readonly invocations: readonly Written<InvocationView, "at">[]
}

export interface WrittenLineage {
  /** null: the job has no such message yet, and has not ended. */
  readonly message: WrittenMessage | null
  readonly inputs: readonly WrittenMessage[]
  readonly outputs: readonly WrittenMessage[]
  readonly is_cut: boolean
}

export type WrittenDeadLetter = Written<DeadLetter, "failed_at">

export interface WrittenDeadLetterPage {
  readonly dead_letters: readonly WrittenDeadLetter[]
  readonly next: string | null
}

export function isoLineage({ message, inputs, outputs, is_cut }: LineageView): WrittenLineage {
  return {
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

export function isoDeadLetters({ dead_letters, next }: DeadLetterPage): WrittenDeadLetterPage {
  return { dead_letters: dead_letters.map(each => ({ ...each, failed_at: isoTime(each.failed_at) })), next }
}
