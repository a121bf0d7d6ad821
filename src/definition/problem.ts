/** Problems of a definition: what is wrong, its position in the document, and what to do. */
import { type ErrorCode, UmbraError } from "../errors.ts"

/** Line and column, both counted from 1; the column counts UTF-16 units, as editors do. */
export interface Position {
  readonly line: number
  readonly column: number
}

export type DocumentPath = readonly (string | number)[]

/** The position at a path: by default the start of the value. */
export interface Place {
  /** Point at the key, not at its value. */
  readonly key?: boolean
  /** Point at this character of the string value. */
  readonly offset?: number
}

/** Position of a path in the parsed text; that of the nearest enclosing value if the path does not exist. */
export type Locate = (path: DocumentPath, place?: Place) => Position | undefined

export interface Problem {
  readonly code: ErrorCode
  /** Says what is wrong and what to do. */
  readonly message: string
  /** For example `nodes[3].config.prompt`; empty for the document itself. */
  readonly path: string
  readonly line?: number
  readonly column?: number
}

/** `more`: number of problems that are not listed; `end`: text after the number of problems in the message. */
export function invalidWorkflow(
  problems: readonly Problem[],
  { more = 0, end = "." }: { readonly more?: number; readonly end?: string } = {},
): UmbraError {
  const total = problems.length + more
  const count = total === 1 ? "a problem" : `${total} problems`
  return new UmbraError(problems[0]?.code ?? "E101", `The workflow has ${count}${end}`, {
    details: { problems, ...(more === 0 ? {} : { more }) },
  })
}

/** Problems of one node, which is checked without yielding: the check stops after this many. */
export const problemsInOnePiece = 1000

const plainKey = /^[A-Za-z_$][A-Za-z0-9_$-]*$/

export function formatPath(path: DocumentPath): string {
  let text = ""
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`
    else if (plainKey.test(part)) text += text === "" ? part : `.${part}`
    else text += `[${JSON.stringify(part)}]`
  }
  return text
}

/** Parses the result of `formatPath`. */
export function parsePath(text: string): DocumentPath {
  const parts = text.matchAll(/\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|\.?([^.[]+)/g)
  return [...parts].map(([, index, quoted, key]) => {
    if (index !== undefined) return Number(index)
    return quoted === undefined ? key! : (JSON.parse(quoted) as string)
  })
}

/** Positions by name. `report` is called for a name that an earlier position has. */
export function firstPositions(
  names: readonly (string | undefined)[],
  report: (name: string, position: number, first: number) => void,
): Map<string, number> {
  const positions = new Map<string, number>()
  names.forEach((name, position) => {
    const first = name === undefined ? undefined : positions.get(name)
    if (first !== undefined) report(name!, position, first)
    else if (name !== undefined) positions.set(name, position)
  })
  return positions
}

/** Collects problems in the order of their positions in the document. */
export class ProblemList {
  readonly #problems: Problem[] = []
  readonly #locate: Locate | undefined

  constructor(locate?: Locate) {
    this.#locate = locate
  }

  get size(): number {
    return this.#problems.length
  }

  add(code: ErrorCode, path: DocumentPath, message: string, place?: Place): void {
    const position = this.#locate?.(path, place)
    this.#problems.push({ code, message, path: formatPath(path), ...position })
  }

  /** By position if the text is known; otherwise in the order of the checks. */
  sorted(): Problem[] {
    if (this.#locate === undefined) return [...this.#problems]
    return [...this.#problems].sort(
      (a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0),
    )
  }
}
