/** Workers, engines with their partitions, and what jobs wait for in queues. */
import { useState } from "react"
import { Sentence } from "../job/panel/sentence.tsx"
import { count, counted, duration, elapsed, timeAgo } from "../model/format.ts"
import { whyParts } from "../model/why-text.ts"
import { groupTitle, isQueue, type Waits } from "../now/needs.ts"
import { StateMark, type Status } from "../shell/icons.tsx"
import { pageHref } from "../shell/router.ts"
import { Empty } from "../shell/states.tsx"

interface Worker {
  readonly id: string
  readonly host: string
  readonly pid: number
  readonly version: string
  readonly state: "live" | "dead" | "outdated"
  readonly last_beat: string
  readonly handlers: readonly string[]
  readonly concurrency: number
  readonly running: number
  readonly queued: number
}

export interface WorkersAnswer {
  readonly workers: readonly Worker[]
}

export interface EnginesAnswer {
  readonly engines: readonly {
    readonly id: string
    readonly host: string
    readonly pid: number
    readonly version: string
    readonly state: "live" | "dead"
    readonly last_beat: string
    readonly partitions: readonly number[]
  }[]
  readonly partitions: number
  readonly unowned: readonly number[]
}

const states: { readonly [state in Worker["state"]]: readonly [Status, string] } = {
  live: ["COMPLETED", "live"],
  dead: ["FAILED", "dead"],
  outdated: ["WAITING", "outdated"],
}

const SHOWN_HANDLERS = 3
const SHOWN_WORKERS = 100

/** Dead workers come first, then the busiest. */
function byNeed(a: Worker, b: Worker): number {
  const rank = ({ state, queued, running, concurrency }: Worker) =>
    state === "live" ? queued + running / Math.max(1, concurrency) : Number.POSITIVE_INFINITY
  const [one, two] = [rank(a), rank(b)]
  return one === two ? a.host.localeCompare(b.host) : two - one
}

export function Workers({ answer: { workers } }: { answer: WorkersAnswer }) {
  const [isByHandler, setByHandler] = useState(false)
  const live = workers.filter(({ state }) => state === "live").length
  return (
    <section className="panel" aria-label="Workers">
      <header>
        <h2>Workers</h2>
        <span className="small dim">
          {count(live)} live
          {live === workers.length ? "" : `, ${count(workers.length - live)} dead or outdated`}
        </span>
        <span className="sp" />
        <fieldset className="seg" aria-label="Group workers">
          <button type="button" aria-pressed={!isByHandler} onClick={() => setByHandler(false)}>
            By host
          </button>
          <button type="button" aria-pressed={isByHandler} onClick={() => setByHandler(true)}>
            By handler
          </button>
        </fieldset>
      </header>
      {workers.length === 0 ? (
        <Empty title="No worker is connected">
          <p>Nodes wait until a worker with their handler starts.</p>
        </Empty>
      ) : isByHandler ? (
        <ByHandler workers={workers} />
      ) : (
        <ByHost workers={workers} />
      )}
    </section>
  )
}

function ByHost({ workers }: { workers: readonly Worker[] }) {
  const [open, setOpen] = useState<string | null>(null)
  return (
    <section className="bscroll" aria-label="Workers by host" tabIndex={0}>
      <table className="tbl">
        <thead>
          <tr>
            <th>Worker</th>
            <th>Attempts</th>
            <th className="num">Queued</th>
            <th className="hide-s">Handlers</th>
            <th className="hide-s">Version</th>
            <th className="num">Heartbeat</th>
          </tr>
        </thead>
        <tbody>
          {[...workers]
            .sort(byNeed)
            .slice(0, SHOWN_WORKERS)
            .map(worker => {
              const { id, host, pid, state, running, concurrency, queued, handlers, version } = worker
              const [mark, word] = states[state]
              const isOpen = open === id
              const shown = isOpen ? handlers : handlers.slice(0, SHOWN_HANDLERS)
              return (
                <tr
                  key={id}
                  data-worker={id}
                  data-state={state}
                  className={state === "live" ? undefined : "bad"}
                >
                  <td>
                    <span className="st" title={id}>
                      <StateMark status={mark} />
                      <b className="med">{host}</b>
                      <span className="dim">{pid}</span>
                    </span>
                  </td>
                  <td>
                    {state === "live" ? (
                      <span className="row load">
                        <span className="bar" aria-hidden="true">
                          <i style={{ flex: running }} />
                          <i className="free" style={{ flex: Math.max(0, concurrency - running) }} />
                        </span>
                        {count(running)} of {count(concurrency)}
                      </span>
                    ) : (
                      <span className="t-failed">{word}</span>
                    )}
                  </td>
                  <td className={queued > 0 ? "num" : "num dim"}>{count(queued)}</td>
                  <td className="hnd hide-s">
                    {shown.map(handler => (
                      <span key={handler} className="tagc">
                        {handler}
                      </span>
                    ))}
                    {handlers.length > SHOWN_HANDLERS && (
                      <button
                        className="tagc out"
                        type="button"
                        aria-expanded={isOpen}
                        onClick={() => setOpen(isOpen ? null : id)}
                      >
                        {isOpen ? "fewer" : `+${handlers.length - SHOWN_HANDLERS}`}
                      </button>
                    )}
                  </td>
                  <td className="dim hide-s">{version}</td>
                  <td className="num dim" title={timeAgo(Date.parse(worker.last_beat))}>
                    {elapsed(Date.now() - Date.parse(worker.last_beat))} ago
                  </td>
                </tr>
              )
            })}
        </tbody>
      </table>
      {workers.length > SHOWN_WORKERS && (
        <p className="bfoot small dim">{count(workers.length - SHOWN_WORKERS)} more have room.</p>
      )}
    </section>
  )
}

function ByHandler({ workers }: { workers: readonly Worker[] }) {
  const handlers = new Map<string, { live: number; all: number; places: number; running: number }>()
  for (const worker of workers)
    for (const handler of worker.handlers) {
      const found = handlers.get(handler) ?? { live: 0, all: 0, places: 0, running: 0 }
      found.all++
      if (worker.state === "live") {
        found.live++
        found.places += worker.concurrency
        found.running += worker.running
      }
      handlers.set(handler, found)
    }
  return (
    <section className="bscroll" aria-label="Workers by handler" tabIndex={0}>
      <table className="tbl">
        <thead>
          <tr>
            <th>Handler</th>
            <th className="num">Workers</th>
            <th className="num">Places of these workers</th>
            <th className="num hide-s">In use, by any handler</th>
          </tr>
        </thead>
        <tbody>
          {[...handlers]
            .sort(([a, x], [b, y]) => x.live - y.live || a.localeCompare(b))
            .map(([name, { live, all, places, running }]) => (
              <tr key={name} data-handler={name} className={live === 0 ? "bad" : undefined}>
                <td className="wrap">
                  <span className="mono">{name}</span>
                </td>
                <td className="num">{live === all ? count(live) : `${count(live)} of ${count(all)}`}</td>
                <td className="num">{count(places)}</td>
                <td className="num hide-s">{count(running)}</td>
              </tr>
            ))}
        </tbody>
      </table>
    </section>
  )
}

export function Engines({ answer }: { answer: EnginesAnswer }) {
  const { engines, partitions, unowned } = answer
  return (
    <section className="panel" aria-label="Engines">
      <header>
        <h2>Engines</h2>
        <span className="small dim">{counted(partitions, "partition")}</span>
      </header>
      {unowned.length > 0 && (
        <p className="bnote t-failed" data-unowned={unowned.length}>
          {counted(unowned.length, "partition")} without an engine: their jobs make no progress.
        </p>
      )}
      {engines.length === 0 ? (
        <Empty title="No engine runs">
          <p>Jobs are stored, and wait for one.</p>
        </Empty>
      ) : (
        <ul className="engs">
          {engines.map(engine => {
            const [mark, word] = states[engine.state]
            return (
              <li key={engine.id} data-engine={engine.id}>
                <span className="st" title={engine.id}>
                  <StateMark status={mark} />
                  <b className="med">{engine.host}</b>
                  <span className="dim">{engine.pid}</span>
                </span>
                <Partitions own={engine.partitions} all={partitions} />
                <b className="num">{count(engine.partitions.length)}</b>
                <span className="small dim nowrap">
                  {engine.state === "live" ? engine.version : word},{" "}
                  {elapsed(Date.now() - Date.parse(engine.last_beat))} ago
                </span>
              </li>
            )
          })}
        </ul>
      )}
    </section>
  )
}

/** One cell for a partition, filled if it is the engine's: one path, however many there are. */
function Partitions({ own, all }: { own: readonly number[]; all: number }) {
  const cell = (place: number) => `M${place * 4} 0h3v12h-3z`
  const mine = new Set(own)
  return (
    <svg
      className="parts"
      viewBox={`0 0 ${Math.max(1, all) * 4} 12`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <path
        className="free"
        d={Array.from({ length: all }, (_, n) => (mine.has(n) ? "" : cell(n))).join("")}
      />
      <path d={own.map(cell).join("")} />
    </svg>
  )
}

export function QueueWaits({ waits }: { waits: Waits }) {
  const groups = waits.groups.filter(isQueue)
  const now = Date.now()
  return (
    <section className="panel" aria-label="Queue waits">
      <header>
        <h2>Queue waits</h2>
        <span className="small dim">
          what your jobs wait for, of {counted(waits.jobs, "unfinished job")}
          {waits.complete ? "" : " that were read"}
        </span>
      </header>
      {groups.length === 0 ? (
        <Empty title="No job waits in a queue" />
      ) : (
        <section className="bscroll" aria-label="Waits" tabIndex={0}>
          <table className="tbl">
            <thead>
              <tr>
                <th>Wait</th>
                <th className="num">Nodes</th>
                <th className="num hide-s">Jobs</th>
                <th className="num">Longest</th>
                <th className="num hide-s">Usual</th>
                <th className="num hide-s">p99</th>
              </tr>
            </thead>
            <tbody>
              {groups.map(group => {
                const { kind, subject, nodes, jobs, since, usual, sentence } = group
                const [first] = group.examples
                return (
                  <tr key={`${kind} ${subject}`} data-wait={kind}>
                    <td className="wrap">
                      {first === undefined ? (
                        <b className="med">{groupTitle(group)}</b>
                      ) : (
                        <a className="med" href={pageHref(`/jobs/${first.job_id}`, { node: first.node })}>
                          {groupTitle(group)}
                        </a>
                      )}
                      <p className="small dim">
                        <Sentence parts={whyParts(sentence, now, () => false)} onNode={() => {}} />
                      </p>
                    </td>
                    <td className="num">{count(nodes)}</td>
                    <td className="num hide-s">{count(jobs)}</td>
                    <td className="num">{since === null ? "no data" : elapsed(now - Date.parse(since))}</td>
                    <td className="num hide-s">{usual === null ? "no data" : duration(usual.p50)}</td>
                    <td className="num hide-s">{usual === null ? "no data" : duration(usual.p99)}</td>
                  </tr>
                )
              })}
            </tbody>
          </table>
        </section>
      )}
    </section>
  )
}
