/** Past and planned ticks by day and hour, in the zone of the schedule. A cell is as dark as it has ticks; what went wrong has its own mark. */
import { useQuery } from "@tanstack/react-query"
import { ask } from "../api/http.ts"
import { count, counted } from "../model/format.ts"
import { Failed, Loading } from "../shell/states.tsx"
import { OutcomeMark } from "./list.tsx"
import {
  dayText,
  type Fire,
  localTime,
  type Outcome,
  outcomes,
  type Schedule,
  schedulePath,
  shownZone,
  spanText,
} from "./model.ts"

const DAY_MS = 86_400_000
const MOST_SPAN_MS = 7 * DAY_MS
const LEAST_SPAN_MS = 3_600_000
/** Ticks on either side of now that the calendar is made for. */
const WANTED = 2000
const PAGE = 1000
const MOST_PAGES = 5

/** The worst one gives a cell its mark. */
const worst: readonly Outcome[] = ["refused", "missed", "skipped", "queued", "started", "planned"]

interface Cell {
  readonly counts: Map<Outcome, number>
  total: number
}

export function Calendar({ schedule }: { schedule: Schedule }) {
  const { name } = schedule
  const zone = shownZone(schedule)
  const span = chooseSpan(schedule.next_ticks)
  const read = useQuery({
    queryKey: ["schedules", "ticks", name, span],
    queryFn: ({ signal }) => readTicks(name, span, signal),
    staleTime: 0,
  })
  return (
    <section className="panel" aria-labelledby="scal">
      <header>
        <h2 id="scal">Calendar</h2>
        <span className="dim small">
          {spanText(span)} back and ahead, {zone}
        </span>
      </header>
      {read.error !== null ? (
        <Failed what="The calendar" error={read.error} onRetry={() => void read.refetch()} />
      ) : read.data === undefined ? (
        <Loading what="the calendar" rows={6} />
      ) : (
        <Grid {...read.data} zone={zone} />
      )}
    </section>
  )
}

/** Shorter for a schedule with many ticks, so that a bounded number of them is read. */
function chooseSpan(ticks: readonly string[]): number {
  if (ticks.length < 2) return MOST_SPAN_MS
  const gap = (Date.parse(ticks.at(-1)!) - Date.parse(ticks[0]!)) / (ticks.length - 1)
  const span = Math.min(MOST_SPAN_MS, Math.max(LEAST_SPAN_MS, gap * WANTED))
  return span >= DAY_MS
    ? Math.floor(span / DAY_MS) * DAY_MS
    : Math.floor(span / LEAST_SPAN_MS) * LEAST_SPAN_MS
}

interface Ticks {
  readonly ticks: readonly Fire[]
  /** Ticks after this time were not read. */
  readonly cutAt: number | null
}

async function readTicks(name: string, span: number, signal: AbortSignal): Promise<Ticks> {
  const now = Date.now()
  const ticks: Fire[] = []
  let after: string | null = null
  for (let page = 0; page < MOST_PAGES; page++) {
    const query = { from: iso(now - span), to: iso(now + span), after, limit: PAGE }
    const answer: { readonly ticks: readonly Fire[]; readonly next: string | null } = await ask(
      `${schedulePath(name)}/ticks`,
      { query, signal },
    )
    ticks.push(...answer.ticks)
    after = answer.next
    if (after === null) return { ticks, cutAt: null }
  }
  return { ticks, cutAt: Date.parse(ticks.at(-1)!.tick) }
}

function iso(at: number): string {
  return new Date(at).toISOString()
}

function Grid({ ticks, cutAt, zone }: Ticks & { zone: string }) {
  const days = new Map<string, Map<number, Cell>>()
  let most = 1
  for (const { tick, outcome, count: number } of ticks) {
    const { day, hour } = localTime(Date.parse(tick), zone)
    const hours = days.get(day) ?? new Map<number, Cell>()
    days.set(day, hours)
    const cell = hours.get(hour) ?? { counts: new Map(), total: 0 }
    hours.set(hour, cell)
    cell.counts.set(outcome, (cell.counts.get(outcome) ?? 0) + number)
    cell.total += number
    most = Math.max(most, cell.total)
  }
  const today = localTime(Date.now(), zone)
  if (!days.has(today.day)) days.set(today.day, new Map())
  const rows = [...days].toSorted(([a], [b]) => (a < b ? -1 : 1))
  const shown = worst.filter(outcome => ticks.some(tick => tick.outcome === outcome))
  if (ticks.length === 0) return <p className="none">No tick in this time.</p>
  return (
    <>
      <div className="calw">
        <table className="cal">
          <thead>
            <tr>
              <th>
                <span className="sr">Day</span>
              </th>
              {Array.from({ length: 24 }, (_, hour) => (
                <th key={hour} scope="col">
                  <span aria-hidden="true">{hour % 3 === 0 ? hour : ""}</span>
                  <span className="sr">{hour} h</span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(([day, hours]) => (
              <tr key={day} data-today={day === today.day || undefined}>
                <th scope="row">{dayText(day)}</th>
                {Array.from({ length: 24 }, (_, hour) => (
                  <CellView
                    key={hour}
                    cell={hours.get(hour)}
                    most={most}
                    isNow={day === today.day && hour === today.hour}
                    label={`${dayText(day)} ${hour} h`}
                  />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="calk small mid">
        {shown.map(outcome => (
          <span key={outcome} className="st">
            <OutcomeMark outcome={outcome} />
            {outcomes[outcome].text}{" "}
            {count(ticks.reduce((sum, tick) => (tick.outcome === outcome ? sum + tick.count : sum), 0))}
          </span>
        ))}
        {cutAt !== null && <span>Ticks after {new Date(cutAt).toISOString()} are not shown.</span>}
      </p>
    </>
  )
}

function CellView({
  cell,
  most,
  isNow,
  label,
}: {
  cell: Cell | undefined
  most: number
  isNow: boolean
  label: string
}) {
  if (cell === undefined) return <td data-now={isNow || undefined} />
  const outcome = worst.find(one => cell.counts.has(one))!
  const level = Math.ceil((cell.total / most) * 4)
  const text = worst
    .filter(one => cell.counts.has(one))
    .map(one => `${count(cell.counts.get(one)!)} ${outcomes[one].text}`)
    .join(", ")
  return (
    <td
      data-o={outcome}
      data-level={level}
      data-count={cell.total}
      data-now={isNow || undefined}
      title={`${label}: ${counted(cell.total, "tick")}, ${text}`}
    >
      <span aria-hidden="true">{cell.total > 1 ? shortCount(cell.total) : ""}</span>
      <span className="sr">{text}</span>
    </td>
  )
}

function shortCount(value: number): string {
  return value < 1000 ? String(value) : `${Math.round(value / 1000)}k`
}
