/** Texts of the server about a job, with its commands, ids and times as parts that can be used. */
import { clock, TIME } from "./format.ts"
import type { Part } from "./sentences.ts"

const COMMAND = /umbra (?:jobs|why|workflows|worker|serve)\b[^,]*/
const JOB = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/
const NODE = /^Node (\S+?)(?=:? )/
const PARTS = new RegExp(`(${COMMAND.source}|${JOB.source}|${TIME.source})`)

/** `isNode`: whether the graph has a node with this id. */
export function whyParts(text: string, now: number, isNode: (id: string) => boolean): readonly Part[] {
  const named = NODE.exec(text)?.[1]
  if (named !== undefined && isNode(named))
    return ["Node ", { node: named }, ...splitParts(text.slice("Node ".length + named.length), now)]
  return splitParts(text, now)
}

function splitParts(text: string, now: number): Part[] {
  return text
    .split(PARTS)
    .filter(part => part !== "")
    .map((part): Part => {
      if (COMMAND.test(part)) return { command: part }
      if (JOB.test(part)) return { job: part }
      return TIME.test(part) ? clock(Date.parse(part), now) : part
    })
}
