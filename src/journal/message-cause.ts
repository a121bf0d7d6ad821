import { JournalDataError } from "./errors.ts"
import type { NewMessage } from "./port/journal.ts"

/**
 * A name for each message of a batch, the same whenever the batch is sent: the fact that caused it, and the
 * index among the messages of that fact. The store keeps one message per name.
 */
export function messageCauses(messages: readonly NewMessage[]): readonly string[] {
  const count = new Map<string, number>()
  return messages.map(({ cause }) => {
    if (!cause) throw new JournalDataError("a message in a batch must name the fact that caused it (`cause`)")
    const fact = `${cause.partition}/${cause.seq}`
    const nth = count.get(fact) ?? 0
    count.set(fact, nth + 1)
    return `${fact}/${nth}`
  })
}
