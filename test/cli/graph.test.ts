import { afterAll, describe, expect, it } from "vitest"
import { umbra } from "./same-process.ts"
import { folderWith } from "./umbra.ts"

const oddHandlers = folderWith({ "odd.mjs": "export const odd = { name: 'x\"]<b>#quot;`', run() {} }\n" })
afterAll(oddHandlers.remove)

const node = (id: string, dependencies: string[] = [], more = {}) => ({
  id,
  handler: "transform",
  config: { value: 1 },
  dependencies,
  ...more,
})
const diamond = JSON.stringify({
  name: 'dia"mond\\',
  nodes: [
    node("join", ["left-side", "right"]),
    node("left-side", ["top"]),
    node("right", ["top"], { when: "{{ top == 1 }}" }),
    node("top"),
    node("end", ["right"]),
  ],
})

async function graph(...parameters: string[]): Promise<string> {
  const { stdout, stderr, code } = await umbra(["graph", "-", ...parameters], { stdin: diamond })
  expect({ stderr, code }).toEqual({ stderr: "", code: 0 })
  return stdout
}

describe("umbra graph", () => {
  it("prints Mermaid by default, with nodes named by position so that no id can break it", async () => {
    expect(await graph()).toBe(`---
title: "dia\\"mond\\\\"
---
flowchart TD
  n0["join<br/><small>transform</small>"]
  n1["left-side<br/><small>transform</small>"]
  n2{{"right<br/><small>transform</small>"}}
  n3["top<br/><small>transform</small>"]
  n4["end<br/><small>transform</small>"]
  n1 --> n0
  n2 --> n0
  n3 --> n1
  n3 --> n2
  n2 --> n4
`)
  })

  it("draws a tree for people: what joins says what it comes after", async () => {
    expect(await graph("--format", "tree")).toBe(`dia"mond\\  5 nodes
top          transform
├ left-side  transform
├ right      transform  when
│ end        transform
└ join       transform  after left-side, right
`)
  })

  it("--json is --format json", async () => {
    expect(await graph("--json")).toBe(await graph("--format", "json"))
  })

  it("prints Graphviz with quotes and backslashes escaped", async () => {
    expect(await graph("--format", "dot")).toBe(`digraph "dia\\"mond\\\\" {
  node [shape=box, style=rounded, fontname="sans-serif"]
  n0 [label="join\\ntransform"]
  n1 [label="left-side\\ntransform"]
  n2 [label="right\\ntransform", style="rounded,dashed"]
  n3 [label="top\\ntransform"]
  n4 [label="end\\ntransform"]
  n1 -> n0
  n2 -> n0
  n3 -> n1
  n3 -> n2
  n2 -> n4
}
`)
  })

  it("prints JSON with nodes, edges, entries, exits, an order and levels", async () => {
    const { order, ...rest } = JSON.parse(await graph("--format", "json"))
    expect(rest).toEqual({
      name: 'dia"mond\\',
      nodes: ["join", "left-side", "right", "top", "end"].map(id => ({
        id,
        handler: "transform",
        conditional: id === "right",
      })),
      edges: [
        { from: "left-side", to: "join" },
        { from: "right", to: "join" },
        { from: "top", to: "left-side" },
        { from: "top", to: "right" },
        { from: "right", to: "end" },
      ],
      entries: ["top"],
      exits: ["join", "end"],
      levels: [["top"], ["left-side", "right"], expect.arrayContaining(["join", "end"])],
    })
    for (const { from, to } of rest.edges) expect(order.indexOf(from)).toBeLessThan(order.indexOf(to))
    expect(order).toHaveLength(5)
  })

  it("draws a handler's name as text whatever it contains", async () => {
    const { stdout } = await umbra(["graph", "-", "--handlers", "odd.mjs"], {
      stdin: JSON.stringify({ name: "odd", nodes: [{ id: "a", handler: 'x"]<b>#quot;`' }] }),
      cwd: oddHandlers.path,
    })
    expect(stdout).toContain('n0["a<br/><small>x#34;#93;#60;b#62;#35;quot#59;#96;</small>"]')
  })

  it("prints problems on standard error and prints no graph", async () => {
    const { stdout, stderr, code } = await umbra(["graph", "-"], {
      stdin: '{"name":"x","nodes":[{"id":"a","handler":"b"}]}',
    })
    expect({ stdout, code }).toEqual({ stdout: "", code: 2 })
    expect(stderr).toContain("error E103")
  })

  it("names a file that does not exist", async () => {
    const { stderr, code } = await umbra(["graph", "absent.yaml"])
    expect({ stderr, code }).toEqual({
      stderr:
        "umbra: E601 absent.yaml does not exist. Check the path; it is relative to the current directory.\n",
      code: 2,
    })
  })
})
