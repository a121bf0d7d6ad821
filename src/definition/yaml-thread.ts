/** Reads one YAML document, and knows where things stand in it for as long as it is asked (yaml-elsewhere.ts). */
import { parentPort } from "node:worker_threads"
import type { DefinitionLimits } from "./limits.ts"
import type { DocumentPath, Locate, Place, Position, Problem } from "./problem.ts"
import { readYaml } from "./yaml-document.ts"

export interface ThreadQuestion {
  readonly read: { readonly text: string; readonly limits: DefinitionLimits }
  readonly locate: readonly (readonly [path: DocumentPath, place?: Place | undefined])[]
}

export interface ThreadAnswer {
  /** `json`: null if the text could not be read at all. */
  readonly read: {
    readonly json: string | null
    readonly problems: readonly Problem[]
    readonly unread: readonly string[]
  }
  readonly locate: readonly (Position | undefined)[]
}

let locate: Locate = () => undefined

parentPort?.on("message", (question: Partial<ThreadQuestion>) => {
  const { read, locate: places = [] } = question
  parentPort?.postMessage(
    read === undefined ? places.map(([path, place]) => locate(path, place)) : answer(read),
  )
})

function answer({ text, limits }: ThreadQuestion["read"]): ThreadAnswer["read"] {
  const { value, problems, unread = [], locate: find } = readYaml(text, limits)
  locate = find
  return { json: value === undefined ? null : JSON.stringify(value), problems, unread }
}
