/** What one attempt logged, up to the moment that is shown. */
import { itemViews } from "../../../../../src/core/index.ts"
import { count } from "../../../model/format.ts"
import type { Moment, Timeline } from "../../../model/timeline.ts"
import { Icon } from "../../../shell/icons.tsx"
import { changeQuery, usePlace } from "../../../shell/router.ts"
import { LogView } from "./log-view.tsx"

export interface LogsTabProps {
  readonly jobId: string
  readonly timeline: Timeline
  readonly moment: Moment
  readonly node: number
  readonly item: number | null
  /** Of the page to the server. */
  readonly connection: string
}

const levels = ["debug", "info", "warn", "error"]

export default function LogsTab(props: LogsTabProps) {
  const { timeline, moment, node, item } = props
  const { query } = usePlace()
  const { id, for_each } = timeline.graph.nodes[node]!
  const isList = for_each === true
  const isWhole = isList && item === null
  const known = isWhole ? null : attemptsAt(moment, node, isList ? item : null)
  if (known === null && !isWhole) return <p className="none">No attempt yet.</p>
  const chosen = Number(query.get("attempt"))
  const attempt = known === null ? null : chosen >= 1 && chosen <= known.total ? chosen : known.begun
  const level = levels.find(name => name === query.get("level")) ?? levels[0]!
  return (
    <>
      <div className="row lgt">
        {attempt !== null && <Attempts total={known!.total} chosen={attempt} />}
        {isList && (
          <button
            className="chipb small"
            type="button"
            aria-pressed={item !== null}
            onClick={() =>
              changeQuery(item === null ? { tab: "Items" } : { item: null, attempt: null, line: null }, {
                replace: true,
              })
            }
          >
            {item === null ? "All items" : `Item ${count(item)}`}
            {item !== null && <Icon name="close" />}
          </button>
        )}
        <span className="sp" />
        <select
          className="in"
          aria-label="Lowest level"
          value={level}
          onChange={event => changeQuery({ level: event.target.value, line: null }, { replace: true })}
        >
          {levels.map(name => (
            <option key={name} value={name}>
              {name === "debug" ? "All levels" : `${name} and above`}
            </option>
          ))}
        </select>
      </div>
      <LogView
        key={[id, item, attempt, level].join(" ")}
        {...props}
        filter={{ node: id, item: isList ? item : null, attempt, level }}
        line={query.get("line")}
      />
    </>
  )
}

/** How many attempts can have lines at this moment, and the newest that has begun; null: none. */
function attemptsAt(moment: Moment, node: number, item: number | null) {
  const view =
    item === null
      ? moment.view.nodes[node]!
      : itemViews(moment.state, node, { after: item - 1, limit: 1, now: moment.at })[0]
  if (view === undefined || view.status === "PENDING" || view.status === "SKIPPED") return null
  const { status, attempt, waiting_on } = view
  const before = Math.max(1, attempt - 1)
  return {
    total: waiting_on?.kind === "retry" ? before : attempt,
    begun: status === "QUEUED" ? before : attempt,
  }
}

function Attempts({ total, chosen }: { total: number; chosen: number }) {
  const choose = (next: number) => changeQuery({ attempt: String(next), line: null }, { replace: true })
  const numbers = Array.from({ length: total }, (_, n) => n + 1)
  return (
    <>
      <span className="small dim">Attempt</span>
      {total > 5 ? (
        <select
          className="in"
          aria-label="Attempt"
          value={chosen}
          onChange={event => choose(Number(event.target.value))}
        >
          {numbers.map(number => (
            <option key={number}>{number}</option>
          ))}
        </select>
      ) : (
        <span className="seg" role="group" aria-label="Attempt">
          {numbers.map(number => (
            <button
              key={number}
              type="button"
              aria-pressed={number === chosen}
              onClick={() => choose(number)}
            >
              {number}
            </button>
          ))}
        </span>
      )}
    </>
  )
}
