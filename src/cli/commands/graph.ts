/** `umbra graph FILE`: the graph of a valid definition, for people, for pages or for programs. */
import type { PipelinePlan } from "../../definition/pipeline/plan.ts"
import type { Plan } from "../../definition/plan.ts"
import { exitCode } from "../exit.ts"
import { loadDocument, type Modules } from "../input/modules.ts"
import {
  dotGraph,
  dotPipeline,
  jsonGraph,
  jsonPipeline,
  mermaidGraph,
  mermaidPipeline,
  treeGraph,
  treePipeline,
} from "../output/pictures.ts"
import { reportProblems } from "../output/problems.ts"
import { type Paint, paintFor } from "../output/terminal.ts"

interface Format {
  readonly graph: (plan: Plan, paint: Paint) => string
  readonly pipeline: (plan: Plan, pipeline: PipelinePlan, paint: Paint) => string
}

const formats: Readonly<Record<string, Format>> = {
  mermaid: { graph: mermaidGraph, pipeline: mermaidPipeline },
  tree: { graph: treeGraph, pipeline: treePipeline },
  dot: { graph: dotGraph, pipeline: dotPipeline },
  json: { graph: jsonGraph, pipeline: jsonPipeline },
}

export interface GraphOptions extends Modules {
  readonly format: string
  readonly json?: boolean
}

export async function graph(file: string, options: GraphOptions): Promise<number> {
  const { source, plan, problems } = await loadDocument(file, options)
  if (plan === undefined) return reportProblems(problems, source, options)
  const format = formats[options.json ? "json" : options.format] as Format
  const paint = paintFor(process.stdout)
  process.stdout.write(
    plan.pipeline === null ? format.graph(plan, paint) : format.pipeline(plan, plan.pipeline, paint),
  )
  return exitCode.ok
}
