/** What differs in one node, or in the inputs: states, errors, and the values, which are compared on request. */
import { useQuery } from "@tanstack/react-query"
import { ask } from "../api/http.ts"
import { count, counted, duration } from "../model/format.ts"
import { Icon, StateMark } from "../shell/icons.tsx"
import { changeQuery, pageHref } from "../shell/router.ts"
import { Failed, Loading } from "../shell/states.tsx"
import type { ComparedNode, Comparison, ValueChange, ValueDiff } from "./differences.ts"

const MOST_CHANGES = 200

export function NodePanel({
  compared,
  node: id,
  moments,
}: {
  compared: Comparison
  node: string
  moments: { readonly at_a: string | null; readonly at_b: string | null }
}) {
  const { a, b } = compared
  const node = compared.nodes.find(one => one.id === id)
  const isInput = node === undefined && id === "input"
  const isDiffed = isInput || (node !== undefined && node.a?.output !== null && node.b?.output !== null)
  const read = useQuery({
    queryKey: ["compare", a.job_id, b.job_id, moments.at_a, moments.at_b, "diff", id],
    queryFn: async ({ signal }) => {
      const query = { a: a.job_id, b: b.job_id, ...moments, diff: id }
      return (await ask<Comparison>("/jobs/compare", { query, signal })).diffs?.[0] ?? null
    },
    enabled: isDiffed && (node === undefined || (node.a !== null && node.b !== null)),
  })
  return (
    <section className="panel cpanel" aria-label={`Differences of ${id}`}>
      <header>
        <h2 className="trunc">{isInput ? "Inputs of the jobs" : id}</h2>
        <span className="sp" />
        <button
          className="btn ghost icon-only sm"
          type="button"
          aria-label="Close"
          title="Close  Esc"
          onClick={() => changeQuery({ node: null })}
        >
          <Icon name="close" />
        </button>
      </header>
      {node === undefined && !isInput ? (
        <p className="none">Neither job has a node {id}.</p>
      ) : (
        <div className="cbody">
          {node !== undefined && <States compared={compared} node={node} />}
          <h3>{isInput ? "Input" : "Output"}</h3>
          {read.error !== null ? (
            <Failed what="The values" error={read.error} onRetry={() => void read.refetch()} />
          ) : node !== undefined && (node.a === null || node.b === null) ? (
            <p className="small dim">Only one of the jobs has this node.</p>
          ) : !isDiffed ? (
            <p className="small dim">At least one side has no output.</p>
          ) : read.data === undefined ? (
            <Loading what="the values" rows={3} />
          ) : (
            <Values diff={read.data} />
          )}
        </div>
      )}
    </section>
  )
}

function States({ compared, node }: { compared: Comparison; node: ComparedNode }) {
  return (
    <>
      <ul className="cstates">
        {(["a", "b"] as const).map(letter => {
          const side = node[letter]
          return (
            <li key={letter}>
              <span className={`abk ${letter}`}>{letter.toUpperCase()}</span>
              {side === null ? (
                <span className="dim">not in this job</span>
              ) : (
                <div>
                  <p className="row">
                    <StateMark status={side.status} />
                    {side.status}
                    <span className="dim">
                      {side.took_ms === null ? "" : duration(side.took_ms)}
                      {side.attempts > 1 ? `, ${counted(side.attempts, "attempt")}` : ""}
                    </span>
                    <a
                      className="link small"
                      href={pageHref(`/jobs/${compared[letter].job_id}`, { node: node.id })}
                    >
                      Open
                    </a>
                  </p>
                  {side.error !== null && (
                    <p className="small t-failed break-words">
                      {side.error.code} {side.error.message}
                    </p>
                  )}
                </div>
              )}
            </li>
          )
        })}
      </ul>
      <p className="small mid">
        {node.same_definition ? "Same definition. " : "Defined differently. "}
        {node.same_inputs === null
          ? "Its inputs were not compared."
          : node.same_inputs
            ? "Same inputs."
            : "Its inputs differ."}
      </p>
    </>
  )
}

function Values({ diff }: { diff: ValueDiff | null }) {
  if (diff === null || diff.not_compared === "missing") return <p className="small dim">There is no value.</p>
  if (diff.not_compared === "too_large")
    return <p className="small dim">The values are too large to be compared, above 2 MiB.</p>
  const { changes = [], complete = true } = diff
  if (changes.length === 0) return <p className="small dim">The same value.</p>
  return (
    <>
      <ol className="vdiff" aria-label="Changed values">
        {changes.slice(0, MOST_CHANGES).map(change => (
          <Change key={`${change.kind} ${change.path}`} change={change} />
        ))}
      </ol>
      {(changes.length > MOST_CHANGES || !complete) && (
        <p className="small dim">
          {count(Math.min(changes.length, MOST_CHANGES))} of {count(changes.length)}
          {complete ? "" : "+"} changes are shown.
        </p>
      )}
    </>
  )
}

function Change({ change: { path, kind, a, b } }: { change: ValueChange }) {
  return (
    <li data-kind={kind}>
      <span className="mono">{path}</span>
      {a !== undefined && (
        <del className="code">
          <span aria-hidden="true">− </span>
          {a}
        </del>
      )}
      {b !== undefined && (
        <ins className="code">
          <span aria-hidden="true">+ </span>
          {b}
        </ins>
      )}
    </li>
  )
}
