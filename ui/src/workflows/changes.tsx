/** What differs between two versions: as text, or in the graph. */
import { useQuery } from "@tanstack/react-query"
import { useMemo } from "react"
import type { CompiledGraph } from "../../../src/core/index.ts"
import { ask } from "../api/http.ts"
import { counted } from "../model/format.ts"
import { hunks, lineDiff } from "../model/line-diff.ts"
import { Icon } from "../shell/icons.tsx"
import { changeQuery, usePlace } from "../shell/router.ts"
import { Empty, Failed, Loading } from "../shell/states.tsx"
import { workflowYaml } from "./ordered.ts"
import { type Mark, PlanGraph } from "./plan-graph.tsx"
import { type Diff, graphQuery, versionQuery, versionsQuery, type Workflow, workflowPath } from "./types.ts"
import { VersionSelect } from "./version-select.tsx"
import { colouredLine } from "./yaml-text.tsx"

export function Changes({ workflow }: { workflow: Workflow }) {
  const { name } = workflow
  const { query } = usePlace()
  const versions = useQuery(versionsQuery(name))
  const numbers = versions.data?.versions.map(({ version }) => version) ?? []
  const to = Number(query.get("to")) || workflow.version
  const from = Number(query.get("from")) || Math.max(1, to - 1)
  const isGraph = query.get("as") === "graph"
  const diff = useDiff(name, from, to)
  return (
    <section className="panel" aria-label="Changes">
      <header className="wrap">
        <VersionSelect label="From" parameter="from" versions={numbers} value={from} />
        <button
          className="btn ghost sm icon-only"
          type="button"
          aria-label="Swap the versions"
          title="Swap the versions"
          onClick={() => changeQuery({ from: String(to), to: String(from) })}
        >
          <Icon name="takeover" />
        </button>
        <VersionSelect label="To" parameter="to" versions={numbers} value={to} />
        <span className="dim small" role="status">
          {diff.data !== undefined && diffText(diff.data)}
        </span>
        <span className="sp" />
        <fieldset className="seg" aria-label="Show changes as">
          <button type="button" aria-pressed={!isGraph} onClick={() => changeQuery({ as: null })}>
            Text
          </button>
          <button type="button" aria-pressed={isGraph} onClick={() => changeQuery({ as: "graph" })}>
            Graph
          </button>
        </fieldset>
      </header>
      {diff.error !== null ? (
        <Failed what="The difference" error={diff.error} onRetry={() => void diff.refetch()} />
      ) : isGraph ? (
        <GraphChanges {...{ name, from, to }} diff={diff.data} />
      ) : (
        <TextChanges {...{ name, from, to }} />
      )}
    </section>
  )
}

function useDiff(name: string, from: number, to: number) {
  return useQuery({
    queryKey: ["version", name, "diff", from, to],
    queryFn: ({ signal }) => ask<Diff>(`${workflowPath(name)}/diff`, { query: { from, to }, signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })
}

function diffText(diff: Diff): string {
  const parts = [
    [diff.nodes_added.length, "node added", "nodes added"],
    [diff.nodes_removed.length, "removed", "removed"],
    [diff.nodes_changed.length, "changed", "changed"],
    [diff.routes_added.length, "route added", "routes added"],
    [diff.routes_removed.length, "route removed", "routes removed"],
    [diff.routes_changed.length, "route changed", "routes changed"],
  ] as const
  const texts = parts.filter(([n]) => n > 0).map(([n, one, many]) => `${n} ${n === 1 ? one : many}`)
  if (diff.keys_changed.length > 0) texts.push(`${diff.keys_changed.join(", ")} changed`)
  return texts.length === 0 ? "Nothing differs" : texts.join(", ")
}

function TextChanges({ name, from, to }: { name: string; from: number; to: number }) {
  const [before, after] = [useQuery(versionQuery(name, from)), useQuery(versionQuery(name, to))]
  const failed = [before, after].find(({ error }) => error !== null)
  if (failed !== undefined)
    return <Failed what="A version" error={failed.error} onRetry={() => void failed.refetch()} />
  if (before.data === undefined || after.data === undefined) return <Loading what="both versions" />
  return (
    <TextDiff before={workflowYaml(before.data)} after={workflowYaml(after.data)} label="Changes as text" />
  )
}

const MOST_LINES = 600

export function TextDiff({ before, after, label }: { before: string; after: string; label: string }) {
  const lines = useMemo(() => hunks(lineDiff(before, after)), [before, after])
  if (lines.every(line => "skipped" in line || line.kind === "same"))
    return (
      <Empty title="Nothing differs">
        <p>Both texts are the same.</p>
      </Empty>
    )
  return (
    <div className="tdiff" role="region" aria-label={label} tabIndex={0}>
      <div className="code">
        {lines.slice(0, MOST_LINES).map((line, n) =>
          "skipped" in line ? (
            <div key={`gap ${n}`} className="dgap">
              {counted(line.skipped, "line")} as before
            </div>
          ) : (
            <div key={`${line.a} ${line.b}`} className={`dl ${line.kind}`}>
              <span className="no" aria-hidden="true">
                {line.a ?? ""}
              </span>
              <span className="no" aria-hidden="true">
                {line.b ?? ""}
              </span>
              <span className="sg">{line.kind === "added" ? "+" : line.kind === "removed" ? "−" : " "}</span>
              <span>{line.kind === "same" ? colouredLine(line.text) : line.text}</span>
            </div>
          ),
        )}
        {lines.length > MOST_LINES && <div className="dgap">{lines.length - MOST_LINES} more lines</div>}
      </div>
    </div>
  )
}

function GraphChanges({
  name,
  from,
  to,
  diff,
}: {
  name: string
  from: number
  to: number
  diff: Diff | undefined
}) {
  const [before, after] = [useQuery(graphQuery(name, from)), useQuery(graphQuery(name, to))]
  const failed = [before, after].find(({ error }) => error !== null)
  const both = useMemo(
    () => (before.data === undefined || after.data === undefined ? null : united(before.data, after.data)),
    [before.data, after.data],
  )
  if (failed !== undefined)
    return <Failed what="A graph" error={failed.error} onRetry={() => void failed.refetch()} />
  if (both === null || diff === undefined) return <Loading what="both graphs" />
  const marks = new Map<string, Mark>([
    ...diff.nodes_added.map(id => [id, "added"] as const),
    ...diff.nodes_removed.map(id => [id, "removed"] as const),
    ...diff.nodes_changed.map(({ id }) => [id, "changed"] as const),
  ])
  return (
    <div className="gbox">
      <PlanGraph key={`${from} ${to}`} graph={both} marks={marks} />
    </div>
  )
}

/**
 * The nodes of both versions. Those that were removed keep what they depended on, and what depended on them, except for edges
 * that would close a circle with those of the new version.
 */
function united(before: CompiledGraph, after: CompiledGraph): CompiledGraph {
  const nodes = new Map(after.nodes.map(node => [node.id, node]))
  const gone = new Map(before.nodes.filter(({ id }) => !nodes.has(id)).map(node => [node.id, node]))
  for (const node of gone.values()) nodes.set(node.id, node)
  const needs = (id: string, wanted: string, seen = new Set<string>()): boolean =>
    id === wanted ||
    (!seen.has(id) && nodes.get(seen.add(id) && id)!.depends_on.some(one => needs(one, wanted, seen)))
  for (const { id, depends_on } of before.nodes)
    for (const dependency of depends_on)
      if (gone.has(dependency) && !gone.has(id) && !needs(dependency, id)) {
        const node = nodes.get(id)!
        nodes.set(id, { ...node, depends_on: [...node.depends_on, dependency] })
      }
  return { nodes: [...nodes.values()] }
}
