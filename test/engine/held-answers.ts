import type { Journal } from "../../src/journal/port/journal.ts"

/** Holds the answers of one verb back until told. */
export function holding<Verb extends "readFact" | "readFacts" | "append" | "endedJobs" | "dueJobs">(
  journal: Journal,
  verb: Verb,
) {
  const held: (() => void)[] = []
  let isHolding = false
  const original = journal[verb].bind(journal) as (...args: unknown[]) => Promise<unknown>
  Object.assign(journal, {
    [verb]: async (...args: unknown[]) => {
      const answer = await original(...args)
      if (isHolding) await new Promise<void>(resolve => held.push(resolve))
      return answer
    },
  })
  return {
    held,
    hold: () => {
      isHolding = true
    },
    /** Later answers are not held. */
    pass: () => {
      isHolding = false
    },
    letGo: () => {
      isHolding = false
      for (const go of held.splice(0)) go()
    },
  }
}
