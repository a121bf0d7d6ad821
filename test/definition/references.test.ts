import { describe, expect, it } from "vitest"
import { planOf, problemsOf } from "./catalog.ts"

const workflow = (node: string, rest = "") => `name: x
nodes:
  - { id: a, handler: echo }
  - { id: my-id, handler: echo }
  - id: c
    handler: echo
    ${node}
${rest}`

const found = (text: string) => problemsOf(text).map(({ code, message }) => `${code} ${message}`)
const dependenciesOfC = (text: string) => {
  const { dependencies, nodes } = planOf(text)
  const ids = dependencies.items.slice(dependencies.starts[2], dependencies.starts[3])
  return Array.from(ids, position => nodes[position]?.id)
}

describe("J3 dependencies are what is declared and what templates read", () => {
  it.each([
    ["config: { x: '{{ a.x }}' }", ["a"]],
    [`config: { x: '{{ nodes["my-id"].x }}' }`, ["my-id"]],
    ["config: { deep: [{ x: 'text {{ a }} and {{ nodes.a.y }}' }] }", ["a"]],
    ["when: '{{ a.ok }}'", ["a"]],
    ["for_each: '{{ a.items }}'", ["a"]],
    ["dependencies: [my-id, my-id]\n    config: { x: '{{ a.x }}' }", ["a", "my-id"]],
    ["config: { x: '{% for a in input.l %}{{ a.x }}{% endfor %}' }", []],
  ])("%s", (node, expected) => {
    expect(dependenciesOfC(workflow(node))).toEqual(expected)
  })

  it("loads for a node only what its templates read; all its dependencies if an id is computed", () => {
    const reads = (node: string) => Array.from(planOf(workflow(node)).nodes[2]?.reads ?? [])
    expect(reads("dependencies: [my-id]\n    config: { x: '{{ a.x }}' }")).toEqual([0])
    expect(reads("dependencies: [my-id, a]\n    config: { x: '{{ nodes[input.which].x }}' }")).toEqual([0, 1])
    expect(reads("dependencies: [a]")).toEqual([])
  })

  it("a computed id adds no dependency", () => {
    expect(dependenciesOfC(workflow("config: { x: '{{ nodes[input.which].x }}' }"))).toEqual([])
  })
})

describe("E111 names that do not exist", () => {
  it.each([
    ["{{ gone.x }}", /Unknown name "gone"/],
    ["{{ inptu.x }}", /Did you mean "input"\?/],
    ["{{ nodes.gone }}", /There is no node "gone"/],
    ["{{ nodes[0] }}", /There is no node 0/],
    ["{{ job.owners }}", /"job" has no field "owners".* Did you mean "owner"\?/],
    ["{{ item }}", /"item" exists only in the config of a node with "for_each"/],
    ["{{ loop.index }}", /"loop" exists only inside/],
    ["{{ secrets[input.x] }}", /must be read by its name/],
    ["{{ constructor }}", /Unknown name "constructor"/],
  ])("%s", (template, message) => {
    const problems = found(workflow(`config: { x: '${template}' }`))
    expect(problems).toHaveLength(1)
    expect(problems[0]).toMatch(/^E111 /)
    expect(problems[0]).toMatch(message)
  })

  it.each(["{{ job.id }}{{ job.workflow }}{{ job.workflow_version }}", "{{ input }}", "{{ secrets.KEY }}"])(
    "%s is known",
    template => {
      expect(found(workflow(`config: { x: '${template}' }`))).toEqual([])
    },
  )

  it("hints at nodes[…] where a hyphenated id reads as a subtraction, once", () => {
    expect(found(workflow("config: { x: '{{ my-id.x }}' }"))).toEqual([
      'E111 "my-id" is parsed as a subtraction here. Write nodes["my-id"] to read that node.',
    ])
    const withPrefix = workflow("config: { x: '{{ a-b.x }}' }").replace("my-id", "a-b")
    expect(found(withPrefix)).toEqual([
      'E111 "a-b" is parsed as a subtraction here. Write nodes["a-b"] to read that node.',
    ])
  })

  it("item and index exist in the config of a node with for_each, not in its when or for_each", () => {
    expect(found(workflow("for_each: [1, 2]\n    config: { x: '{{ item }} {{ index }}' }"))).toEqual([])
    expect(found(workflow("for_each: [1]\n    when: '{{ item }}'"))).toEqual([
      expect.stringMatching(/^E111 "item"/),
    ])
    expect(found(workflow("for_each: '{{ item }}'"))).toEqual([expect.stringMatching(/^E111 "item"/)])
  })

  it("is found in the workflow's output, too", () => {
    expect(found(workflow("config: {}", "output: { x: '{{ gone }}', y: '{{ a.x }}' }\n"))).toEqual([
      expect.stringMatching(/^E111 Unknown name "gone"/),
    ])
  })
})

describe("E112 secrets where they would be stored", () => {
  it.each([
    ["when", workflow("when: '{{ secrets.KEY }}'")],
    ["for_each", workflow("for_each: '{{ secrets.KEY }}'")],
    ["output", workflow("config: {}", "output: '{{ secrets.KEY }}'\n")],
    [
      "transform",
      workflow("config: { value: '{{ secrets.KEY }}' }").replace("echo\n    config", "transform\n    config"),
    ],
  ])("%s", (_, text) => {
    expect(problemsOf(text).map(({ code }) => code)).toEqual(["E112"])
  })
})
