/** The graph of one version, with what a node is. */
import { useQuery } from "@tanstack/react-query"
import { useState } from "react"
import { Icon } from "../shell/icons.tsx"
import { usePlace } from "../shell/router.ts"
import { Empty, Failed, Loading } from "../shell/states.tsx"
import { nodeYaml } from "./ordered.ts"
import { PlanGraph } from "./plan-graph.tsx"
import { type Definition, graphQuery, versionQuery, versionsQuery, type Workflow } from "./types.ts"
import { VersionSelect } from "./version-select.tsx"
import { YamlText } from "./yaml-text.tsx"

export function GraphOfVersion({ workflow }: { workflow: Workflow }) {
  const { name } = workflow
  const { query } = usePlace()
  const version = Number(query.get("version")) || workflow.version
  const versions = useQuery(versionsQuery(name))
  const graph = useQuery(graphQuery(name, version))
  const stored = useQuery(versionQuery(name, version))
  const [node, setNode] = useState<string | null>(null)
  const failed = [graph, stored].find(({ error }) => error !== null)
  const found = stored.data?.definition.nodes?.find(({ id }) => id === node)
  return (
    <div className="wgrid" data-open={found !== undefined || undefined}>
      <section className="panel" aria-label="Graph">
        <header>
          <h2>Graph</h2>
          <span className="sp" />
          <VersionSelect
            label="Version"
            parameter="version"
            versions={versions.data?.versions.map(one => one.version) ?? []}
            value={version}
          />
        </header>
        {failed !== undefined ? (
          <Failed what={`Version ${version}`} error={failed.error} onRetry={() => void graph.refetch()} />
        ) : graph.data === undefined || stored.data === undefined ? (
          <Loading what="the graph" />
        ) : stored.data.definition.routes !== undefined ? (
          <Routes definition={stored.data.definition} />
        ) : (
          <div className="gbox">
            <PlanGraph key={version} graph={graph.data} onNode={setNode} />
          </div>
        )}
      </section>
      {found !== undefined && (
        <section className="panel" aria-label={`Node ${node}`}>
          <header>
            <h2>{node}</h2>
            <span className="sp" />
            <button
              className="btn ghost sm icon-only"
              type="button"
              aria-label="Close"
              onClick={() => setNode(null)}
            >
              <Icon name="close" />
            </button>
          </header>
          <YamlText text={nodeYaml(found)} label={`Definition of ${node}`} />
        </section>
      )}
    </div>
  )
}

function Routes({ definition: { routes = [] } }: { definition: Definition }) {
  return (
    <Empty title="A pipeline: routes in place of nodes">
      <p>{routes.map(({ name }) => name).join(", ")}</p>
    </Empty>
  )
}
