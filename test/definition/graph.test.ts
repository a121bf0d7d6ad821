import { describe, expect, it } from "vitest"
import { checkStructure } from "../../src/definition/graph/structure.ts"
import { compileWorkflow, validateWorkflow } from "../../src/definition/index.ts"
import { ProblemList } from "../../src/definition/problem.ts"
import fc from "../support/property.ts"
import { handlers, problemsOf } from "./catalog.ts"
import { type Drawn, type DrawnNode, idOf, readOf, workflows } from "./drawn.ts"

/** What each node needs, read from the definition in the plainest way. */
function neededBy(node: DrawnNode): string[] {
  const text = JSON.stringify([node.config?.list, node.when]).replaceAll('\\"', '"')
  const read = [...text.matchAll(/\{\{ (?:nodes\["(step-\d+)"\]|(step_\d+))/g)].map(
    match => match[1] ?? match[2] ?? "",
  )
  return [...new Set([...(node.dependencies ?? []), ...read])]
}

describe("J4 graphs", () => {
  it("random DAGs validate, and their order respects every edge", () => {
    fc.assert(
      fc.property(workflows, (workflow: Drawn) => {
        const { plan, problems } = compileWorkflow(workflow, { handlers })
        expect(problems).toBeUndefined()
        if (plan === undefined) return
        expect([...plan.order].sort((a, b) => a - b)).toEqual(workflow.nodes.map((_, i) => i))
        const rank = new Map([...plan.order].map((position, at) => [position, at]))
        workflow.nodes.forEach((node, i) => {
          const positions = neededBy(node).map(id => plan.positions.get(id) ?? -1)
          const { starts, items } = plan.dependencies
          expect([...items.slice(starts[i], starts[i + 1])]).toEqual(positions.sort((a, b) => a - b))
          for (const position of positions) expect(rank.get(position)).toBeLessThan(rank.get(i) ?? -1)
        })
      }),
      { numRuns: 300 },
    )
  })

  it("E107 random cycles are found, and the path named is really one", () => {
    const cycles = fc.tuple(
      workflows.filter(({ nodes }) => nodes.length >= 2),
      fc.integer({ min: 2, max: 6 }),
      fc.boolean(),
    )
    fc.assert(
      fc.property(cycles, ([workflow, wanted, byTemplate]) => {
        const nodes = structuredClone(workflow.nodes)
        const size = Math.min(wanted, nodes.length)
        for (let i = 0; i < size; i++) {
          const node = nodes.find(({ id }) => id === idOf(i))
          const next = (i + 1) % size
          if (byTemplate)
            (node?.config?.list as object[] | undefined)?.push({ text: `{{ ${readOf(next)} }}` })
          else node?.dependencies?.push(idOf(next))
        }
        const problems = validateWorkflow({ ...workflow, nodes }, { handlers })
        expect(problems.map(({ code }) => code)).toEqual(["E107"])
        const path = /Cycle: (.*?) \(/.exec(problems[0]?.message ?? "")?.[1]?.split(" → ") ?? []
        expect(path.length).toBeGreaterThan(2)
        expect(path[0]).toBe(path.at(-1))
        expect(new Set(path).size).toBe(path.length - 1)
        for (let i = 0; i + 1 < path.length; i++) {
          const node = nodes.find(({ id }) => id === path[i])
          expect(node === undefined ? [] : neededBy(node)).toContain(path[i + 1])
        }
      }),
      { numRuns: 300 },
    )
  })

  it("E107 names the path, and which edges come from templates", () => {
    const text = `name: x
nodes:
  - { id: a, handler: echo, dependencies: [c] }
  - { id: b, handler: echo, config: { v: "{{ a.x }}" } }
  - { id: c, handler: echo, dependencies: [b] }
`
    expect(problemsOf(text)[0]?.message).toBe(
      'Cycle: a → c → b → a (each waits for the next). It is caused by reading "a" in a template of "b". Remove one of these dependencies.',
    )
  })

  it("E107 is reported once for each independent cycle", () => {
    const ring = (prefix: string, size: number) =>
      Array.from({ length: size }, (_, i) => ({
        id: `${prefix}${i}`,
        handler: "echo",
        dependencies: [`${prefix}${(i + 1) % size}`],
      }))
    const problems = validateWorkflow({ name: "x", nodes: [...ring("p", 2), ...ring("q", 3)] }, { handlers })
    expect(problems.map(({ code, path }) => `${code} ${path}`)).toEqual([
      "E107 nodes[0].dependencies[0]",
      "E107 nodes[2].dependencies[0]",
    ])
  })

  it("E107 a cycle of 100,000 nodes is found, shown shortened, in linear time", () => {
    const count = 100_000
    const nodes = Array.from({ length: count }, (_, i) => ({
      id: `n${i}`,
      handler: "echo",
      dependencies: [`n${(i + 1) % count}`],
    }))
    const [problem, ...others] = validateWorkflow({ name: "x", nodes }, { handlers })
    expect(others).toEqual([])
    expect(problem?.message).toMatch(/^Cycle: n0 → n1 → .* → … 99981 more … → .* → n0 \(/)
    expect(problem?.message.length).toBeLessThan(500)
  })

  it("E109 is for a node that no order reaches and no cycle explains", () => {
    const problems = new ProblemList()
    const none = { starts: new Int32Array(3), items: new Int32Array(0) }
    const findOrigin = () => ({ path: [], byTemplate: false })
    const inDegrees = Int32Array.of(0, 1)
    checkStructure({ ids: ["a", "b"], dependencies: none, successors: none, inDegrees, findOrigin }, problems)
    expect(problems.sorted()).toEqual([
      { code: "E109", path: "nodes[1]", message: expect.stringContaining('"b"') },
    ])
  })
})

describe("limits", () => {
  const chain = (count: number) =>
    Array.from({ length: count }, (_, i) => ({
      id: `n${i}`,
      handler: "echo",
      dependencies: i === 0 ? [] : [`n${i - 1}`],
    }))

  it("nodes", () => {
    const problems = validateWorkflow({ name: "x", nodes: chain(4) }, { handlers, limits: { nodes: 3 } })
    expect(problems).toEqual([
      { code: "E101", path: "nodes", message: expect.stringContaining("(limit nodes)") },
    ])
  })

  it("edges", () => {
    const limits = { edges: 2 }
    expect(validateWorkflow({ name: "x", nodes: chain(3) }, { handlers, limits })).toEqual([])
    const problems = validateWorkflow({ name: "x", nodes: chain(4) }, { handlers, limits })
    expect(problems).toEqual([
      { code: "E101", path: "nodes[3]", message: expect.stringContaining("(limit edges)") },
    ])
  })

  it("suggestions for 20,000 unknown names among 20,000 do not take quadratic time", () => {
    const nodes = chain(20_000).map((node, i) => ({ ...node, dependencies: [`missing_${i}`] }))
    const begun = process.cpuUsage()
    expect(validateWorkflow({ name: "x", nodes }, { handlers })).toHaveLength(20_000)
    expect(process.cpuUsage(begun).user / 1000).toBeLessThan(5000)
  })

  it("20,000 problems in one JSON text are located without rescanning it", () => {
    const nodes = chain(20_000).map(node => ({ ...node, handler: "gone" }))
    const begun = process.cpuUsage()
    expect(problemsOf(JSON.stringify({ name: "x", nodes }))).toHaveLength(20_000)
    expect(process.cpuUsage(begun).user / 1000).toBeLessThan(5000)
  })
})
