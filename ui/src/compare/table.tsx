/** The nodes of both jobs, aligned by id, in the order of the graph; A above B. */
import { useState } from "react"
import { amount, count, counted, duration } from "../model/format.ts"
import { StateMark } from "../shell/icons.tsx"
import { changeQuery } from "../shell/router.ts"
import { type ComparedNode, type Comparison, judgeNode, signed, verdictText } from "./differences.ts"

/** A job may have thousands of nodes: the page has at most this many rows until more are requested. */
const ROWS = 200

export function NodeTable({
  compared,
  selected,
  isShort,
  onShort,
}: {
  compared: Comparison
  selected: string | null
  isShort: boolean
  onShort: () => void
}) {
  const [limit, setLimit] = useState(ROWS)
  const { nodes } = compared
  const differing = nodes.filter(node => judgeNode(node) !== "same")
  const rows = isShort ? differing : nodes
  const span = nodes.reduce(
    (most, { a, b }) => Math.max(most, endTime(a, compared.a.took_ms), endTime(b, compared.b.took_ms)),
    1,
  )
  const usage = Object.keys({ ...compared.a.usage, ...compared.b.usage })[0]
  return (
    <section className="panel" aria-label="Nodes">
      <header>
        <h2>Nodes</h2>
        <span className="dim small hide-s">by id, in the order of the graph</span>
        <span className="sp" />
        <label className="only small">
          <input type="checkbox" checked={isShort} onChange={onShort} />
          Only the {count(differing.length)} that differ
        </label>
      </header>
      {rows.length === 0 ? (
        <p className="none">No node differs.</p>
      ) : (
        <table className="tbl ctbl">
          <thead>
            <tr>
              <th>Node</th>
              <th>A</th>
              <th>B</th>
              <th className="bars">
                <span className="row">
                  From its start, A above B <span className="sp" />
                  <span className="dim">{duration(span)}</span>
                </span>
              </th>
              <th className="num">Δ time</th>
              {usage !== undefined && <th className="num">Δ {usage}</th>}
              <th>Attempts</th>
              <th>Result</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, limit).map(node => (
              <Row
                key={node.id}
                node={node}
                span={span}
                totals={[compared.a.took_ms, compared.b.took_ms]}
                usage={usage}
                isSelected={node.id === selected}
              />
            ))}
          </tbody>
        </table>
      )}
      {rows.length > limit && (
        <div className="more pad">
          <button className="btn sm" type="button" onClick={() => setLimit(limit + ROWS)}>
            Show {count(Math.min(ROWS, rows.length - limit))} more
          </button>
          <span className="small dim">
            {count(limit)} of {counted(rows.length, "node")}
          </span>
        </div>
      )}
    </section>
  )
}

function Row({
  node,
  span,
  totals,
  usage,
  isSelected,
}: {
  node: ComparedNode
  /** The whole width, from the start of each job. */
  span: number
  totals: readonly [a: number, b: number]
  usage: string | undefined
  isSelected: boolean
}) {
  const { id, a, b, delta } = node
  const verdict = judgeNode(node)
  const open = () => changeQuery({ node: isSelected ? null : id })
  const attempts =
    a === null || b === null || a.attempts === b.attempts
      ? count((b ?? a)?.attempts ?? 0)
      : `${count(a.attempts)} → ${count(b.attempts)}`
  return (
    <tr data-node={id} data-verdict={verdict} aria-selected={isSelected}>
      <td className="k1">
        <button className="cn" type="button" aria-pressed={isSelected} onClick={open}>
          {id}
        </button>
      </td>
      {[a, b].map((side, n) => (
        <td key={n} className={n === 0 ? "k2" : "k3"} title={side?.status}>
          {side === null ? <span className="dim">–</span> : <StateMark status={side.status} />}
          <span className="sr">{side === null ? "not in this job" : side.status}</span>
        </td>
      ))}
      <td className="bars" aria-label={`${timeText(a?.took_ms)} in A, ${timeText(b?.took_ms)} in B`}>
        {[a, b].map((side, n) => (
          <span key={n} className={n === 0 ? "tb a" : "tb b"}>
            {side?.began_ms != null && (
              <i
                data-open={side.took_ms === null || undefined}
                style={{
                  marginLeft: `${(side.began_ms / span) * 100}%`,
                  width: `${((endTime(side, totals[n]!) - side.began_ms) / span) * 100}%`,
                }}
              />
            )}
          </span>
        ))}
      </td>
      <td className="num k4">{delta?.took_ms == null ? "" : signed(delta.took_ms, duration)}</td>
      {usage !== undefined && (
        <td className="num k5">
          {delta?.usage[usage] ? signed(delta.usage[usage], value => amount(usage, value)) : ""}
        </td>
      )}
      <td className="k6 dim">{attempts}</td>
      <td className="k7">
        <span className={verdict === "here" ? "here" : "dim"}>{verdictText(node)}</span>
      </td>
    </tr>
  )
}

/** When a node ended, from the start of its job; for a node that has not ended, the newest known time. */
function endTime(side: ComparedNode["a"], total: number): number {
  if (side?.began_ms == null) return 0
  return side.took_ms === null ? Math.max(side.began_ms, total) : side.began_ms + side.took_ms
}

function timeText(ms: number | null | undefined): string {
  return ms == null ? "no time" : duration(ms)
}
