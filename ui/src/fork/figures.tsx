/** What will run and why, what it usually takes and uses, and what is reused. Unknown is "no data", never 0. */
import { amount, count, counted, duration, usageRange } from "../model/format.ts"
import { Icon } from "../shell/icons.tsx"
import { changeQuery } from "../shell/router.ts"
import { kindTexts, type OriginNode, type Preview, runs, type Verdict } from "./draft.ts"
import { kindIcons } from "./graph.tsx"
import { timeRange } from "./panel.tsx"

const MOST_ROWS = 100

export function Figures({
  preview,
  verdicts,
  origin,
}: {
  preview: Preview
  verdicts: ReadonlyMap<string, Verdict>
  origin: ReadonlyMap<string, OriginNode>
}) {
  const all = [...verdicts.values()]
  const running = all.filter(runs)
  const rest = all.filter(verdict => !runs(verdict))
  const { expected, removed } = preview
  return (
    <>
      <section>
        <h2>What will run</h2>
        {running.length === 0 ? (
          <p className="small mid">Nothing: every node keeps its result or has one that you set.</p>
        ) : (
          <table className="tbl ftbl">
            <thead>
              <tr>
                <th>Node</th>
                <th className="num">Time p50 – p90</th>
                <th className="num">Usage p50 – p90</th>
              </tr>
            </thead>
            <tbody>
              {running.slice(0, MOST_ROWS).map(verdict => (
                <tr key={verdict.node} data-runs={verdict.node}>
                  <td>
                    <NodeLink verdict={verdict} />
                    <p className="tiny dim">{because(verdict)}</p>
                  </td>
                  <td className="num">
                    <Figure text={timeRange(verdict.duration_ms)} />
                  </td>
                  <td className="num">
                    <Figure text={usageText(verdict.usage)} />
                  </td>
                </tr>
              ))}
              {running.length > MOST_ROWS && (
                <tr>
                  <td className="small dim" colSpan={3}>
                    and {counted(running.length - MOST_ROWS, "more node")}
                  </td>
                </tr>
              )}
            </tbody>
            <tfoot>
              <tr>
                <th>In all</th>
                <td className="num">
                  <Figure text={timeRange(expected.duration_ms)} />
                </td>
                <td className="num">
                  <Figure text={totalUsage(preview)} />
                </td>
              </tr>
            </tfoot>
          </table>
        )}
        {running.length > 0 && (
          <p className="small dim">
            From jobs of the last 7 days. The time is that of the critical path:{" "}
            {listed(expected.critical_path)}.
            {expected.without_data.length > 0 && ` No data for ${listed(expected.without_data)}.`}
          </p>
        )}
      </section>
      <section>
        <h2>What stays</h2>
        <Saved {...{ rest, origin }} />
        {rest.length > 0 && (
          <details className="small">
            <summary>Why {counted(rest.length, "node")} will not run</summary>
            <ul className="fwhy">
              {rest.slice(0, MOST_ROWS).map(verdict => (
                <li key={verdict.node} data-stays={verdict.node}>
                  <NodeLink verdict={verdict} />
                  <span className="dim">
                    {kindTexts[verdict.kind]}: {verdict.because}
                  </span>
                </li>
              ))}
              {rest.length > MOST_ROWS && <li className="dim">and {count(rest.length - MOST_ROWS)} more</li>}
            </ul>
          </details>
        )}
        {removed.length > 0 && <p className="small mid">Not in this version: {listed(removed)}.</p>}
      </section>
    </>
  )
}

function NodeLink({ verdict }: { verdict: Verdict }) {
  return (
    <button
      className="cn row"
      type="button"
      onClick={() => changeQuery({ node: verdict.node }, { replace: true })}
    >
      <Icon name={kindIcons[verdict.kind]} small />
      <span className="trunc">{verdict.node}</span>
    </button>
  )
}

export function because({ because: text, items }: Verdict): string {
  return items === undefined
    ? text
    : `${text}; ${count(items.run)} of ${counted(items.run + items.reused, "item")} run`
}

function Figure({ text }: { text: string }) {
  return <span className={text === "no data" ? "dim" : ""}>{text}</span>
}

function usageText(usage: Verdict["usage"]): string {
  if (usage == null) return "no data"
  return Object.entries(usage)
    .map(([name, used]) => `${name} ${usageRange(name, used)}`)
    .join(", ")
}

/** Nodes without data make it a lower bound. */
function totalUsage({ expected }: Preview): string {
  const text = usageText(expected.usage)
  return text === "no data" || expected.without_data.length === 0 ? text : `from ${text}`
}

/** What the results that are taken over took and used in the origin. */
function Saved({ rest, origin }: { rest: readonly Verdict[]; origin: ReadonlyMap<string, OriginNode> }) {
  const reused = rest.filter(({ kind }) => kind === "reused")
  const pinned = rest.length - reused.length - rest.filter(({ kind }) => kind === "skipped").length
  const used = new Map<string, number>()
  let took = 0
  for (const { node } of reused) {
    const before = origin.get(node)
    took += (before?.duration_ms ?? 0) + (before?.waited_ms ?? 0)
    for (const [name, value] of Object.entries(before?.usage ?? {}))
      used.set(name, (used.get(name) ?? 0) + value)
  }
  const costs = [...used].map(([name, value]) => ` and used ${amount(name, value)} of ${name}`).join("")
  return (
    <p className="small mid">
      {reused.length === 0
        ? "No result of the origin is reused."
        : `${counted(reused.length, "result")} of the origin ${reused.length === 1 ? "is" : "are"} reused: there ${reused.length === 1 ? "it" : "they"} took ${duration(took)}${costs}.`}
      {pinned > 0 && ` ${counted(pinned, "node")} ${pinned === 1 ? "has" : "have"} the output you set.`}
    </p>
  )
}

function listed(names: readonly string[]): string {
  return names.length <= 6
    ? names.join(", ")
    : `${names.slice(0, 6).join(", ")} and ${count(names.length - 6)} more`
}
