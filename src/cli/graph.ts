/** `umbra graph FILE`: the graph of a valid definition, to paste into a page or to feed to a program. */
import { loadWorkflow } from "../definition/index.ts"
import { adaptersFor } from "./adapters.ts"
import { exitCode } from "./exit.ts"
import { dotGraph, type GraphPicture, graphPicture, jsonGraph, mermaidGraph } from "./graph-picture.ts"
import { loadCatalog } from "./handlers.ts"
import {
  dotPipeline,
  jsonPipeline,
  mermaidPipeline,
  type PipelinePicture,
  pipelinePicture,
} from "./pipeline-picture.ts"
import { renderProblems } from "./problems.ts"
import { readSource } from "./source.ts"
import { paintFor } from "./terminal.ts"

interface Format {
  readonly graph: (picture: GraphPicture) => string
  readonly pipeline: (picture: PipelinePicture) => string
}

const formats: Readonly<Record<string, Format>> = {
  mermaid: { graph: mermaidGraph, pipeline: mermaidPipeline },
  dot: { graph: dotGraph, pipeline: dotPipeline },
  json: { graph: jsonGraph, pipeline: jsonPipeline },
}

export interface GraphOptions {
  readonly format: string
  readonly handlers?: readonly string[]
  readonly adapters?: readonly string[]
}

export async function graph(file: string, options: GraphOptions): Promise<number> {
  const [source, handlers] = await Promise.all([readSource(file), loadCatalog(options.handlers ?? [])])
  const adapters = await adaptersFor(source.text, options)
  const loaded = loadWorkflow(source.text, {
    handlers,
    adapters,
    ...(source.format && { format: source.format }),
  })
  if (loaded.plan === undefined) {
    // To standard error: what reads the graph from a pipe must not take problems for one.
    const { name, text } = source
    process.stderr.write(renderProblems(loaded.problems, { name, text, paint: paintFor(process.stderr) }))
    return exitCode.invalid
  }
  const { plan } = loaded
  const format = formats[options.format] as Format
  process.stdout.write(
    plan.pipeline === null
      ? format.graph(graphPicture(plan))
      : format.pipeline(pipelinePicture(plan, plan.pipeline)),
  )
  return exitCode.ok
}
