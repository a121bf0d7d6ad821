/**
 * Long YAML, read in a thread: the library takes a second for a megabyte, in one piece. What it found comes back as text
 * of JSON, which is read fifty times faster than objects are handed over; lines and columns are asked for afterwards, if
 * something is wrong. One document at a time: its tree takes some fifty times its size.
 */
import type { Worker } from "node:worker_threads"
import type { Json } from "../core/json.ts"
import { startThread } from "../thread.ts"
import type { SourceDocument } from "./document.ts"
import type { DefinitionLimits } from "./limits.ts"
import type { DocumentPath, Place, Position, Problem } from "./problem.ts"
import type { ThreadAnswer, ThreadQuestion } from "./yaml-thread.ts"

/** Shorter ones take less time here than a thread takes to start. */
const LONG = 32 * 1024

export function isLongYaml(text: string): boolean {
  return text.length > LONG
}

let last: Promise<unknown> = Promise.resolve()

export class YamlElsewhere {
  readonly document: SourceDocument
  readonly #ask: Ask
  readonly #asked: [path: DocumentPath, place: Place | undefined][] = []

  private constructor(ask: Ask, { json, problems, unread }: ThreadAnswer["read"]) {
    this.#ask = ask
    const value = json === null ? undefined : (JSON.parse(json) as Json)
    // The column 0, which no text has, marks what still has to be asked for.
    const locate: SourceDocument["locate"] = (path, place) => ({
      line: this.#asked.push([[...path], place]) - 1,
      column: 0,
    })
    this.document = { format: "yaml", value, problems, unread, locate }
  }

  /** What was read is there as long as `use` takes. */
  static read<T>(
    text: string,
    limits: DefinitionLimits,
    use: (yaml: YamlElsewhere) => Promise<T>,
  ): Promise<T> {
    const turn = async () => {
      const thread = startThread(new URL("./yaml-thread", import.meta.url))
      const ask = asking(thread)
      try {
        return await use(new YamlElsewhere(ask, await ask("read", { text, limits })))
      } finally {
        await thread.terminate()
      }
    }
    const read = last.then(turn, turn)
    last = read.catch(() => undefined)
    return read
  }

  /** Problems of `document`, with their lines and columns. */
  async placed(problems: readonly Problem[]): Promise<Problem[]> {
    const positions = await this.#ask("locate", this.#asked)
    return problems.map(problem => (problem.column === 0 ? at(problem, positions[problem.line!]) : problem))
  }
}

function at({ line: _, column: __, ...problem }: Problem, position: Position | undefined): Problem {
  return { ...problem, ...position }
}

type Ask = <K extends keyof ThreadAnswer>(question: K, data: ThreadQuestion[K]) => Promise<ThreadAnswer[K]>

/** Also who asks a thread that has ended before is told so: all other documents wait for this one. */
function asking(thread: Worker): Ask {
  const ended = new Promise<never>((_, reject) => {
    thread.once("error", reject)
    thread.once("exit", code => reject(new Error(`The thread that reads YAML ended with code ${code}.`)))
  })
  ended.catch(() => undefined)
  return (question, data) => {
    const answer = new Promise<ThreadAnswer[typeof question]>(resolve => thread.once("message", resolve))
    thread.postMessage({ [question]: data })
    return Promise.race([answer, ended])
  }
}
