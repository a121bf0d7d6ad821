/**
 * Measures definitions: 100,000 nodes with 300,000 edges, each node with a template in its config, validated
 * and compiled as an object and as JSON text (goal: under 2 s and 500 MB), and YAML parsing speed. Each case
 * runs in a separate process, so that memory is that of the case alone.
 */
import { execFile } from "node:child_process"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { z } from "zod"
import { compileWorkflow, handlerCatalog, loadWorkflow, parseDocument } from "../src/definition/index.ts"

export interface DefinitionFigure {
  readonly name: string
  readonly seconds: number
  /** Of all threads, including the garbage collector's: steadier than `seconds` on a busy machine. */
  readonly cpuSeconds: number
  /** The peak resident memory of the process. */
  readonly megabytes: number
  readonly detail: string
}

const handlers = handlerCatalog([
  { name: "call", config: z.strictObject({ prompt: z.string(), tokens: z.number() }) },
])

/** Each node reads one earlier node in a template and declares two others: three edges, all different. */
function largeWorkflow(count: number): { name: string; nodes: object[] } {
  const nodes: object[] = []
  for (let i = 0; i < count; i++) {
    const earlier = [i - 1, i - 7, i - 101].filter(position => position >= 0)
    nodes.push({
      id: `node_${i}`,
      handler: "call",
      config: {
        prompt: i === 0 ? "begin" : `Summarise {{ node_${i - 1}.text | upper }} in brief`,
        tokens: 100,
      },
      dependencies: earlier.slice(1).map(position => `node_${position}`),
      timeout_seconds: 30,
    })
  }
  return { name: "large", nodes }
}

function yamlText(count: number): string {
  const nodes = Array.from(
    { length: count },
    (_, i) =>
      `  - id: node_${i}\n    handler: call\n    config:\n      prompt: "Summarise {{ input.text }}"\n      tokens: 100\n`,
  )
  return `name: large\nnodes:\n${nodes.join("")}`
}

const cases: Record<string, () => () => string> = {
  "object, 100,000 nodes, 300,000 edges": () => {
    const workflow = largeWorkflow(100_000)
    return () => describePlan(compileWorkflow(workflow, { handlers }))
  },
  "JSON text, 100,000 nodes, 300,000 edges": () => {
    const text = JSON.stringify(largeWorkflow(100_000))
    return () => `${describePlan(loadWorkflow(text, { handlers }))}, ${megabytes(text.length)} MB of text`
  },
  "YAML text, 10,000 nodes, parsed only": () => {
    const text = yamlText(10_000)
    return () => `${parseDocument(text).problems.length} problems, ${megabytes(text.length)} MB of text`
  },
  "YAML text, 10,000 nodes, to a plan": () => {
    const text = yamlText(10_000)
    return () => `${describePlan(loadWorkflow(text, { handlers }))}, ${megabytes(text.length)} MB of text`
  },
}

const megabytes = (bytes: number): string => (bytes / 1_000_000).toFixed(1)

function describePlan({ plan, problems }: ReturnType<typeof compileWorkflow>): string {
  if (plan === undefined) throw new Error(`the workflow should be valid: ${problems[0]?.message}`)
  return `${plan.nodes.length} nodes, ${plan.dependencies.items.length} edges`
}

function runCase(name: string): DefinitionFigure {
  const work = cases[name]!()
  const cpu = process.cpuUsage()
  const begun = performance.now()
  const detail = work()
  const seconds = (performance.now() - begun) / 1000
  const { user, system } = process.cpuUsage(cpu)
  const cpuSeconds = (user + system) / 1_000_000
  return { name, seconds, cpuSeconds, megabytes: Math.round(process.resourceUsage().maxRSS / 1024), detail }
}

export async function definitions(): Promise<readonly DefinitionFigure[]> {
  const figures: DefinitionFigure[] = []
  console.log("definitions")
  for (const name of Object.keys(cases)) {
    const { stdout } = await promisify(execFile)(process.execPath, [
      ...process.execArgv,
      ...["--import", "tsx", fileURLToPath(import.meta.url), name],
    ])
    const figure = JSON.parse(stdout) as DefinitionFigure
    figures.push(figure)
    const { seconds, cpuSeconds, megabytes: memory, detail } = figure
    const time = `${seconds.toFixed(2)} s (${cpuSeconds.toFixed(2)} s of processor)`
    console.log(`  ${name.padEnd(42)} ${time} ${String(memory).padStart(5)} MB  ${detail}`)
  }
  return figures
}

const [, script, chosen] = process.argv
if (script === fileURLToPath(import.meta.url) && chosen !== undefined)
  console.log(JSON.stringify(runCase(chosen)))
