/**
 * Where nodes are drawn. The places follow from the compiled graph alone, never from a state: a change of state moves
 * nothing. Small graphs are laid out by dagre; large or deep ones, for which dagre needs seconds, in layers of our own.
 */
import { layout as dagre, graphlib } from "@dagrejs/dagre"
import type { CompiledGraph } from "../../../../src/core/index.ts"
import { computeRanks, type Edges } from "./ranks.ts"

export interface Box {
  readonly x: number
  readonly y: number
  readonly w: number
  readonly h: number
}

export interface Layout {
  /** By position of the node. */
  readonly boxes: readonly Box[]
  /** Positions of the ends of each edge. */
  readonly edges: Edges
  /** By edge: where it passes between cards, if it spans several ranks; null: straight from card to card. */
  readonly lanes: readonly (number | null)[]
  readonly width: number
  readonly height: number
}

const HEIGHT = 60
const LIST_HEIGHT = 92
const RANK_GAP = 44
const NODE_GAP = 24
const MOST_NODES = 300
const MOST_RANKS = 100
const SWEEPS = 4

/** All cards are as wide as the longest id needs, within limits. */
function cardWidth(graph: CompiledGraph): number {
  const longest = graph.nodes.reduce((most, { id }) => Math.max(most, id.length), 0)
  return Math.min(208, Math.max(144, 52 + longest * 7))
}

export function computeLayout(graph: CompiledGraph): Layout {
  const positions = new Map(graph.nodes.map(({ id }, position) => [id, position]))
  const edges = graph.nodes.flatMap(({ depends_on }, to) =>
    depends_on.map(id => [positions.get(id)!, to] as const),
  )
  const w = cardWidth(graph)
  const sizes = graph.nodes.map(({ for_each }) => ({ w, h: for_each ? LIST_HEIGHT : HEIGHT }))
  const ranks = computeRanks(graph.nodes.length, edges)
  const isLarge = sizes.length > MOST_NODES || Math.max(0, ...ranks) > MOST_RANKS
  const { boxes, lanes } = isLarge
    ? { boxes: layered(sizes, edges, ranks), lanes: edges.map(() => null) }
    : byDagre(sizes, edges)
  return {
    boxes,
    edges,
    lanes,
    width: boxes.reduce((most, box) => Math.max(most, box.x + box.w), 0),
    height: boxes.reduce((most, box) => Math.max(most, box.y + box.h), 0),
  }
}

type Sizes = readonly { readonly w: number; readonly h: number }[]

function byDagre(sizes: Sizes, edges: Edges): Pick<Layout, "boxes" | "lanes"> {
  const graph = new graphlib.Graph()
  graph.setGraph({ rankdir: "LR", ranker: "tight-tree", ranksep: RANK_GAP, nodesep: NODE_GAP, edgesep: 12 })
  graph.setDefaultEdgeLabel(() => ({}))
  for (const [node, { w, h }] of sizes.entries()) graph.setNode(String(node), { width: w, height: h })
  for (const [from, to] of edges) graph.setEdge(String(from), String(to))
  dagre(graph)
  const boxes = sizes.map(({ w, h }, node) => {
    const { x, y } = graph.node(String(node)) as { x: number; y: number }
    return { x: Math.round(x - w / 2), y: Math.round(y - h / 2), w, h }
  })
  const lanes = edges.map(([from, to]) => {
    const { points } = graph.edge(String(from), String(to)) as { points: readonly { x: number; y: number }[] }
    // Points inside of the ranks between the two ends.
    const passed = points.filter(
      ({ x }) => x > boxes[from]!.x + boxes[from]!.w + RANK_GAP && x < boxes[to]!.x - RANK_GAP,
    )
    return passed.length === 0 ? null : Math.round(passed[Math.floor(passed.length / 2)]!.y)
  })
  return { boxes, lanes }
}

/** Layers by rank, ordered by the mean place of the neighbours: linear in the size of the graph. */
function layered(sizes: Sizes, edges: Edges, ranks: readonly number[]): Box[] {
  const layers: number[][] = []
  for (const [node, rank] of ranks.entries()) {
    layers[rank] ??= []
    layers[rank].push(node)
  }
  const above: number[][] = sizes.map(() => [])
  const below: number[][] = sizes.map(() => [])
  for (const [from, to] of edges) {
    below[from]!.push(to)
    above[to]!.push(from)
  }
  const place = new Float64Array(sizes.length)
  const number = (layer: readonly number[]) => {
    for (const [n, node] of layer.entries()) place[node] = n - layer.length / 2
  }
  for (const layer of layers) number(layer)
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isDown = sweep % 2 === 0
    for (const layer of isDown ? layers : layers.toReversed()) {
      const means = new Map(
        layer.map(node => [node, mean((isDown ? above : below)[node]!, place) ?? place[node]!]),
      )
      layer.sort((a, b) => means.get(a)! - means.get(b)!)
      number(layer)
    }
  }
  return placeBoxes(layers, sizes)
}

function mean(nodes: readonly number[], place: Float64Array): number | null {
  if (nodes.length === 0) return null
  return nodes.reduce((sum, node) => sum + place[node]!, 0) / nodes.length
}

/** A layer of more nodes than this is split into columns, so that 1,000 parallel nodes stay readable. */
const MOST_ROWS = 40

function placeBoxes(layers: readonly (readonly number[])[], sizes: Sizes): Box[] {
  const boxes = new Array<Box>(sizes.length)
  const columns = layers.flatMap(layer => {
    const parts = Math.ceil(layer.length / MOST_ROWS)
    const rows = Math.ceil(layer.length / parts)
    return Array.from({ length: parts }, (_, part) => ({
      nodes: layer.slice(part * rows, (part + 1) * rows),
      isLast: part === parts - 1,
    }))
  })
  const columnHeight = (nodes: readonly number[]) =>
    nodes.reduce((sum, node) => sum + sizes[node]!.h + NODE_GAP, -NODE_GAP)
  const tallest = columns.reduce((most, { nodes }) => Math.max(most, columnHeight(nodes)), 0)
  let x = 0
  for (const { nodes, isLast } of columns) {
    let y = Math.round((tallest - columnHeight(nodes)) / 2)
    for (const node of nodes) {
      boxes[node] = { x, y, ...sizes[node]! }
      y += sizes[node]!.h + NODE_GAP
    }
    x += (nodes[0] === undefined ? 0 : sizes[nodes[0]]!.w) + (isLast ? RANK_GAP : 16)
  }
  return boxes
}
