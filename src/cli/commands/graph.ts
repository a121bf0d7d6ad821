/** `umbra graph FILE`: the graph of a valid definition, for people, for pages or for programs. */
import { loadWorkflow } from "../../definition/index.ts"
import type { Plan } from "../../definition/plan.ts"
import { exitCode } from "../exit.ts"
import { readSource } from "../input/source.ts"
import {
  dotGraph,
  type GraphPicture,
  graphPicture,
  jsonGraph,
  mermaidGraph,
} from "../output/graph-picture.ts"
import { treeGraph, treePipeline } from "../output/graph-tree.ts"
import {
  dotPipeline,
  jsonPipeline,
  mermaidPipeline,
  type PipelinePicture,
  pipelinePicture,
} from "../output/pipeline-picture.ts"
import { problemsAsJson, renderProblems } from "../output/problems.ts"
import { type Paint, paintFor } from "../output/terminal.ts"
import { adaptersFor } from "./adapters.ts"
import { loadCatalog } from "./handlers.ts"

interface Format {
  readonly graph: (plan: Plan, paint: Paint) => string
  readonly pipeline: (picture: PipelinePicture, paint: Paint) => string
}

const ofPicture =
  (write: (picture: GraphPicture) => string) =>
  (plan: Plan): string =>
    write(graphPicture(plan))

const formats: Readonly<Record<string, Format>> = {
  mermaid: { graph: ofPicture(mermaidGraph), pipeline: mermaidPipeline },
  tree: { graph: treeGraph, pipeline: treePipeline },
  dot: { graph: ofPicture(dotGraph), pipeline: dotPipeline },
  json: { graph: ofPicture(jsonGraph), pipeline: jsonPipeline },
}

export interface GraphOptions {
  readonly format: string
  readonly json?: boolean
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
    // To standard error: a program that reads the graph from a pipe must not read problems.
    const { name, text } = source
    const paint = paintFor(process.stderr)
    if (options.json) process.stdout.write(problemsAsJson(loaded.problems))
    else process.stderr.write(renderProblems(loaded.problems, { name, text, paint }))
    return exitCode.invalid
  }
  const { plan } = loaded
  const format = formats[options.json ? "json" : options.format] as Format
  const paint = paintFor(process.stdout)
  process.stdout.write(
    plan.pipeline === null
      ? format.graph(plan, paint)
      : format.pipeline(pipelinePicture(plan, plan.pipeline), paint),
  )
  return exitCode.ok
}
