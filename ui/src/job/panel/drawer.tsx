/** The panel beside the view: the selected node, or the job, at the moment that is shown. */
import { lazy, type ReactNode, Suspense, useEffect, useRef } from "react"
import type { CompiledNode, NodeView } from "../../../../src/core/index.ts"
import { collectMentions, mentionsAt } from "../../model/artifacts.ts"
import { clock, count, counted } from "../../model/format.ts"
import type { JobSource } from "../../model/source.ts"
import type { Moment, Timeline } from "../../model/timeline.ts"
import { Icon, StateMark } from "../../shell/icons.tsx"
import { changeQuery, currentAddress } from "../../shell/router.ts"
import { copyText, Loading } from "../../shell/states.tsx"
import { AttemptsTab, attemptCount } from "./attempts.tsx"
import { EventsTab } from "./events.tsx"
import { ItemsTab } from "./items.tsx"
import { JobTab } from "./job-tab.tsx"
import { ConfigTab, InputTab, OutputTab } from "./payload-tabs.tsx"
import { RoutesTab, routesHandler } from "./routes-tab.tsx"
import { WhyTab } from "./why.tsx"

/** Loaded with the first log that is opened. */
const LogsTab = lazy(() => import("./logs/logs-tab.tsx"))
/** Few nodes have artifacts. */
const ArtifactsTab = lazy(() => import("./artifacts-tab.tsx"))

export interface DrawerProps {
  readonly source: JobSource
  readonly timeline: Timeline
  readonly moment: Moment
  /** null: the job itself. */
  readonly node: number | null
  readonly tab: string | null
  readonly item: number | null
  readonly canSignal: boolean
  readonly onNode: (id: string) => void
  readonly onMoment: (index: number) => void
  readonly onClose: () => void
  readonly onCommand: () => void
}

interface Tab {
  readonly name: string
  readonly note?: string
  readonly render: () => ReactNode
}

export function Drawer(props: DrawerProps) {
  const { timeline, moment, node, tab, onClose } = props
  const view = node === null ? null : moment.view.nodes[node]!
  const tabs = node === null ? jobTabs(props) : nodeTabs(props, view!, timeline.graph.nodes[node]!)
  const current = tabs.find(({ name }) => name === tab) ?? tabs[0]!
  const body = useRef<HTMLDivElement>(null)
  // biome-ignore lint/correctness/useExhaustiveDependencies: another node or tab begins at its top.
  useEffect(() => {
    body.current!.scrollTop = 0
    // There may be more tabs than fit.
    document.getElementById(`tab-${current.name}`)!.scrollIntoView({ block: "nearest", inline: "nearest" })
  }, [node, current.name])
  return (
    <aside className="drawer" aria-label={view === null ? "Job" : `Node ${view.id}`}>
      <header>
        <div className="row">
          <StateMark status={view === null ? moment.view.status : view.status} />
          <h2 className="trunc">{view === null ? "This job" : view.id}</h2>
          <span className="tagc">{view === null ? moment.view.status : view.status}</span>
          {view === null && moment.view.paused !== undefined && <span className="tagc">PAUSED</span>}
          <span className="sp" />
          {node !== null && (
            <button
              className="btn ghost sm icon-only"
              type="button"
              aria-label="Copy a link to this node"
              title="Copy link"
              onClick={() => void copyText(currentAddress())}
            >
              <Icon name="link" />
            </button>
          )}
          <button
            className="btn ghost sm icon-only"
            type="button"
            aria-label="Close"
            title="Close  Esc"
            onClick={onClose}
          >
            <Icon name="close" />
          </button>
        </div>
        <p className="small dim trunc">
          {view === null ? jobLine(timeline) : nodeLine(view, timeline.graph.nodes[node!]!)}
          {moment.isLive ? "" : ` · at ${clock(moment.at)}`}
        </p>
      </header>
      <div className="tabs" role="tablist" aria-label="Details">
        {tabs.map(({ name, note }) => (
          <button
            key={name}
            role="tab"
            type="button"
            id={`tab-${name}`}
            aria-controls="tab-panel"
            aria-selected={name === current.name}
            tabIndex={name === current.name ? 0 : -1}
            onClick={() => changeQuery({ tab: name }, { replace: true })}
            onKeyDown={event => {
              const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
              if (step === undefined) return
              event.preventDefault()
              event.stopPropagation()
              const next = tabs[(tabs.indexOf(current) + step + tabs.length) % tabs.length]!
              changeQuery({ tab: next.name }, { replace: true })
              document.getElementById(`tab-${next.name}`)?.focus()
            }}
          >
            {name}
            {note !== undefined && <span className="n">{note}</span>}
          </button>
        ))}
      </div>
      <div
        className="dbody"
        id="tab-panel"
        role="tabpanel"
        aria-labelledby={`tab-${current.name}`}
        tabIndex={0}
        ref={body}
      >
        {current.render()}
      </div>
    </aside>
  )
}

function nodeTabs(props: DrawerProps, view: NodeView, compiled: CompiledNode): Tab[] {
  const { timeline, moment, source, item } = props
  const node = props.node!
  const shared = { timeline, moment, source, node }
  const tries = attemptCount(shared)
  return [
    { name: "Why", render: () => <WhyTab {...props} node={node} view={view} compiled={compiled} /> },
    { name: "Config", render: () => <ConfigTab {...shared} item={item} /> },
    { name: "Output", render: () => <OutputTab {...shared} item={item} /> },
    {
      name: "Attempts",
      ...(tries > 0 ? { note: String(tries) } : {}),
      render: () => <AttemptsTab {...shared} />,
    },
    ...(source.hasLogs
      ? [
          {
            name: "Logs",
            render: () => (
              <Suspense fallback={<Loading what="the log" rows={4} />}>
                <LogsTab
                  {...{ timeline, moment, node, item }}
                  jobId={source.jobId}
                  connection={source.connection.kind}
                />
              </Suspense>
            ),
          },
        ]
      : []),
    ...(compiled.for_each
      ? [
          {
            name: "Items",
            ...(view.items === undefined ? {} : { note: count(view.items.total) }),
            render: () => <ItemsTab {...props} node={node} />,
          },
        ]
      : []),
    // The tab stays where the slider goes back to a time before the first of them.
    ...(collectMentions(timeline).some(mention => mention.node === node) ? [artifactsTab(props)] : []),
    ...routesTabs(props, compiled),
  ]
}

function artifactsTab(props: DrawerProps): Tab {
  const number = mentionsAt(props).length
  return {
    name: "Artifacts",
    ...(number > 0 ? { note: count(number) } : {}),
    render: () => (
      <Suspense fallback={<Loading what="the artifacts" rows={4} />}>
        <ArtifactsTab {...props} />
      </Suspense>
    ),
  }
}

function routesTabs({ source, moment }: DrawerProps, { handler }: CompiledNode): Tab[] {
  if (handler !== routesHandler) return []
  return [{ name: "Routes", render: () => <RoutesTab source={source} moment={moment} /> }]
}

function jobTabs(props: DrawerProps): Tab[] {
  const { timeline, moment, source, onMoment } = props
  return [
    { name: "Job", render: () => <JobTab {...props} /> },
    { name: "Input", render: () => <InputTab timeline={timeline} source={source} /> },
    {
      name: "Output",
      render: () => <OutputTab timeline={timeline} moment={moment} source={source} node={null} item={null} />,
    },
    {
      name: "Events",
      note: count(timeline.length),
      render: () => <EventsTab timeline={timeline} moment={moment} onMoment={onMoment} />,
    },
    ...routesTabs(props, timeline.graph.nodes[0]!),
    artifactsTab(props),
  ]
}

function nodeLine(
  { attempt, max_attempts, items, status }: NodeView,
  { handler, provider }: CompiledNode,
): string {
  const parts = [handler, ...(provider === null ? [] : [provider])]
  if (items !== undefined) parts.push(counted(items.total, "item"))
  else if (status !== "PENDING" && status !== "SKIPPED") parts.push(`attempt ${attempt} of ${max_attempts}`)
  return parts.join(" · ")
}

function jobLine({ graph, facts }: Timeline): string {
  return `${counted(graph.nodes.length, "node")} · ${counted(facts.length, "event")}`
}
