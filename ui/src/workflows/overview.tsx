/** One workflow: where its aliases point and how those versions perform, how long its nodes take, and its versions. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { useState } from "react"
import { ask } from "../api/http.ts"
import { amount, clock, count, counted, duration, timeAgo, usageRange } from "../model/format.ts"
import { Ask } from "../shell/dialog.tsx"
import { Icon } from "../shell/icons.tsx"
import { pageHref } from "../shell/router.ts"
import { Empty, Failed, Loading } from "../shell/states.tsx"
import { percent, Rate } from "./rate.tsx"
import { Rollout, useRolloutUpdates } from "./rollout.tsx"
import {
  type NodeStatistics,
  type StoredVersion,
  statisticsQuery,
  versionsQuery,
  type Workflow,
  workflowPath,
  workflowQuery,
} from "./types.ts"

export function Overview({ workflow, canManage }: { workflow: Workflow; canManage: boolean }) {
  const { aliases = [] } = workflow
  const [isAdding, setAdding] = useState(false)
  useRolloutUpdates(workflow.name)
  return (
    <div className="wcols">
      <div className="wcol">
        {aliases.map(alias => (
          <Rollout key={alias.alias} workflow={workflow} alias={alias} canManage={canManage} />
        ))}
        <Nodes workflow={workflow} />
      </div>
      <div className="wcol">
        <Versions
          workflow={workflow}
          action={
            canManage && (
              <button className="btn sm" type="button" onClick={() => setAdding(true)}>
                <Icon name="plus" />
                Alias
              </button>
            )
          }
        />
      </div>
      {isAdding && <AliasDialog workflow={workflow} onClose={() => setAdding(false)} />}
    </div>
  )
}

function AliasDialog({ workflow, onClose }: { workflow: Workflow; onClose: () => void }) {
  const { name, version } = workflow
  const queries = useQueryClient()
  const [error, setError] = useState<string | null>(null)
  const save = async (form: FormData) => {
    const alias = String(form.get("alias")).trim()
    const path = `${workflowPath(name)}/aliases/${encodeURIComponent(alias)}`
    try {
      await ask(path, { method: "PUT", body: { version: Number(form.get("version")) } })
      await queries.invalidateQueries({ queryKey: workflowQuery(name).queryKey })
      onClose()
    } catch (failure) {
      setError((failure as Error).message)
    }
  }
  return (
    <Ask title="New alias" action="Create" error={error} onClose={onClose} onSubmit={form => void save(form)}>
      <label className="field">
        <span>Name</span>
        <input className="in" name="alias" required autoComplete="off" placeholder="stable" />
      </label>
      <label className="field">
        <span>Version</span>
        <input
          className="in"
          name="version"
          type="number"
          min={1}
          max={version}
          defaultValue={version}
          required
        />
      </label>
      <p className="small mid">{name}@ALIAS then means this version, until the alias is moved.</p>
    </Ask>
  )
}

function Versions({ workflow, action }: { workflow: Workflow; action: React.ReactNode }) {
  const { name, version: latest, aliases = [] } = workflow
  const { data, error, refetch } = useQuery(versionsQuery(name))
  const at = (query: Record<string, string>) => pageHref(`/workflows/${encodeURIComponent(name)}`, query)
  const tags = ({ version }: StoredVersion) => {
    const pointing = aliases.flatMap(({ alias, weights }) => {
      const total = Object.values(weights).reduce((sum, weight) => sum + weight, 0)
      const share = (weights[version] ?? 0) / total
      return share === 0 ? [] : [share === 1 ? alias : `${alias} ${Math.round(share * 100)} %`]
    })
    return version === latest ? ["latest", ...pointing] : pointing
  }
  return (
    <section className="panel" aria-label="Versions">
      <header>
        <h2>Versions</h2>
        <span className="sp" />
        {action}
      </header>
      {error !== null ? (
        <Failed what="Versions" error={error} onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <Loading what="versions" />
      ) : (
        <ul className="vlist">
          {data.versions.map(one => (
            <li key={one.version}>
              <a className="med" href={at({ view: "graph", version: String(one.version) })}>
                v{one.version}
              </a>
              <div>
                <p className="row tags">
                  {tags(one).map(tag => (
                    <span key={tag} className={tag === "latest" ? "tagc out" : "tagc"}>
                      {tag}
                    </span>
                  ))}
                </p>
                <p className="small dim">
                  <span className="mono">{one.hash.slice(0, 8)}</span>
                  {one.pushed_by === null ? "" : ` · ${one.pushed_by}`} ·{" "}
                  <span title={timeAgo(Date.parse(one.created_at))}>{clock(Date.parse(one.created_at))}</span>
                </p>
              </div>
              {one.version > 1 && (
                <a
                  className="link small"
                  href={at({ view: "changes", from: String(one.version - 1), to: String(one.version) })}
                >
                  Changes<span className="sr"> of v{one.version}</span>
                </a>
              )}
            </li>
          ))}
          {data.next !== null && (
            <li className="small dim">Older versions are not listed; their numbers can be chosen.</li>
          )}
        </ul>
      )}
    </section>
  )
}

const ranges = { "24 h": 24, "7 d": 7 * 24, "30 d": 30 * 24 } as const
type Range = keyof typeof ranges
const MOST_NODES = 200

function Nodes({ workflow: { name, version, definition } }: { workflow: Workflow }) {
  const [range, setRange] = useState<Range>("24 h")
  const [isLatest, setLatest] = useState(false)
  const { data, error, refetch } = useQuery(statisticsQuery(name, isLatest ? version : null, ranges[range]))
  const path = new Map(data?.critical_path.map(({ node, duration_ms }) => [node, duration_ms ?? 0]))
  const whole = [...path.values()].reduce((sum, ms) => sum + ms, 0)
  const unit = costUnit(data?.nodes ?? [])
  const perJob = data?.jobs.usage?.[unit!]
  return (
    <section className="panel" aria-label="Statistics of nodes">
      <header className="wrap">
        <h2>Nodes</h2>
        <span className="dim small" role="status">
          {data !== undefined &&
            `${counted(data.jobs.count, "job")} ended since ${clock(Date.parse(data.from))}${failedText(data.jobs.failure_rate)}${perJob === undefined ? "" : `, ${unit} ${usageRange(unit!, perJob)} per job`}`}
        </span>
        <span className="sp" />
        <label className="only small">
          <input type="checkbox" checked={isLatest} onChange={event => setLatest(event.target.checked)} />v
          {version} only
        </label>
        <fieldset className="seg" aria-label="Jobs that ended in the last">
          {(Object.keys(ranges) as Range[]).map(one => (
            <button key={one} type="button" aria-pressed={one === range} onClick={() => setRange(one)}>
              {one}
            </button>
          ))}
        </fieldset>
      </header>
      {error !== null ? (
        <Failed what="Statistics" error={error} onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <Loading what="statistics" />
      ) : data.nodes.length === 0 ? (
        <Empty title="No data">
          <p>No job ended in this time. Ends are counted within a minute.</p>
        </Empty>
      ) : (
        <div className="xscroll">
          <table className="tbl ntbl">
            <thead>
              <tr>
                <th>Node</th>
                <th className="num">p50</th>
                <th className="num hide-s">p90</th>
                <th className="num">p95</th>
                <th className="num hide-s">p99</th>
                <th className="num">Failed</th>
                <th className="num hide-s">Tries</th>
                {unit !== null && <th className="num hide-s">{unit} p50 – p90</th>}
                <th className="hide-s">On the critical path</th>
              </tr>
            </thead>
            <tbody>
              {data.nodes.slice(0, MOST_NODES).map(node => (
                <NodeRow
                  key={node.node}
                  node={node}
                  unit={unit}
                  isList={definition.nodes?.some(one => one.id === node.node && "for_each" in one) === true}
                  share={whole === 0 ? 0 : (path.get(node.node) ?? 0) / whole}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {(data?.nodes.length ?? 0) > MOST_NODES && (
        <p className="gfoot small dim">{count(data!.nodes.length - MOST_NODES)} more nodes are not listed.</p>
      )}
    </section>
  )
}

function failedText(rate: number | null): string {
  return rate === null || rate === 0 ? "" : `, ${percent(rate)} failed`
}

function costUnit(nodes: readonly NodeStatistics[]): string | null {
  const names = nodes.flatMap(({ usage }) => Object.keys(usage ?? {}))
  return names.find(name => /(^|_)(usd|cost)(_|$)/.test(name)) ?? names[0] ?? null
}

interface NodeRowProps {
  readonly node: NodeStatistics
  readonly unit: string | null
  readonly share: number
  /** Its attempts are those of all its items, whose number is not known. */
  readonly isList: boolean
}

function NodeRow({ node, unit, share, isList }: NodeRowProps) {
  const { duration_ms: took, count: ends, attempts, failure_rate: rate } = node
  const time = (ms: number | undefined) => (ms === undefined ? "no data" : duration(ms))
  const used = unit === null ? undefined : node.usage?.[unit]
  return (
    <tr>
      <td className="med wn">{node.node}</td>
      <td className="num">{time(took?.p50)}</td>
      <td className="num hide-s">{time(took?.p90)}</td>
      <td className="num">{time(took?.p95)}</td>
      <td className="num hide-s">{time(took?.p99)}</td>
      <td className={rate === null || rate === 0 ? "num dim" : "num t-failed"}>
        {rate === null ? "no data" : percent(rate)}
      </td>
      <td className="num hide-s">
        {ends === 0 || isList ? "" : (attempts / ends).toFixed(2).replace(/\.?0+$/, "")}
      </td>
      {unit !== null && (
        <td className="num hide-s">
          {used && usageRange(unit, used)}
          {used && used.p99 !== null && <p className="tiny dim">p99 {amount(unit, used.p99)}</p>}
        </td>
      )}
      <td className="hide-s">
        {share > 0 && <Rate rate={share} kind="plain" text={`${Math.round(share * 100)} %`} />}
      </td>
    </tr>
  )
}
