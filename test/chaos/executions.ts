/** What handlers wrote down (handlers.js), of all processes. */
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"

export interface Execution {
  readonly what: "start" | "end" | "abort"
  readonly job: string
  readonly node: string
  readonly attempt: number
  readonly at: number
  /** Of the process. */
  readonly pid: number
}

export async function readExecutions(folder: string): Promise<Execution[]> {
  const found: Execution[] = []
  for (const file of await readdir(folder)) {
    const pid = /^executions-(\d+)-/.exec(file)?.[1]
    if (pid === undefined) continue
    for (const line of (await readFile(join(folder, file), "utf8")).split("\n")) {
      const [what, job, node, attempt, at] = line.split(" ")
      if (at === undefined) continue
      found.push({
        ...{ what: what as Execution["what"], job: job!, node: node!, pid: Number(pid) },
        ...{ attempt: Number(attempt), at: Number(at) },
      })
    }
  }
  return found
}
