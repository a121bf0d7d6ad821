/** `umbra graph FILE`: the graph of a valid definition, to paste into a page or to feed to a program. */
import { loadWorkflow } from "../definition/index.ts"
import { exitCode } from "./exit.ts"
import { dotGraph, type GraphPicture, graphPicture, jsonGraph, mermaidGraph } from "./graph-picture.ts"
import { loadCatalog } from "./handlers.ts"
import { renderProblems } from "./problems.ts"
import { readSource } from "./source.ts"
import { paintFor } from "./terminal.ts"

const formats: Readonly<Record<string, (picture: GraphPicture) => string>> = {
  mermaid: mermaidGraph,
  dot: dotGraph,
  json: jsonGraph,
}

export interface GraphOptions {
  readonly format: string
  readonly handlers?: readonly string[]
}

export async function graph(file: string, options: GraphOptions): Promise<number> {
  const [source, handlers] = await Promise.all([readSource(file), loadCatalog(options.handlers ?? [])])
  const loaded = loadWorkflow(source.text, { handlers, ...(source.format && { format: source.format }) })
  if (loaded.plan === undefined) {
    // To standard error: what reads the graph from a pipe must not take problems for one.
    const { name, text } = source
    process.stderr.write(renderProblems(loaded.problems, { name, text, paint: paintFor(process.stderr) }))
    return exitCode.invalid
  }
  const render = formats[options.format] as (picture: GraphPicture) => string
  process.stdout.write(render(graphPicture(loaded.plan)))
  return exitCode.ok
}
