/** Beside the graph of a fork: what is changed, what that means for each node, and what must be confirmed. */
import { type UseQueryResult, useQuery } from "@tanstack/react-query"
import { useState } from "react"
import type { CompiledNode } from "../../../src/core/index.ts"
import { ApiError } from "../api/http.ts"
import { counted, duration, range, versionText } from "../model/format.ts"
import { Icon } from "../shell/icons.tsx"
import { changeQuery } from "../shell/router.ts"
import { copyText, Failed } from "../shell/states.tsx"
import { versionsQuery } from "../workflows/types.ts"
import {
  buildForkCommand,
  type Confirmed,
  type Draft,
  type emptyDraft,
  itemsText,
  type OriginNode,
  type Preview,
  runs,
  type Verdict,
} from "./draft.ts"
import { Figures } from "./figures.tsx"
import { InputEditor, NodeSection } from "./node-section.tsx"
import type { OriginJob } from "./page.tsx"

export type Rest = typeof emptyDraft & { readonly input?: unknown }

interface PanelProps {
  readonly job: OriginJob
  readonly draft: Draft
  readonly onDraft: (change: (rest: Rest) => Rest) => void
  readonly node: CompiledNode | null
  readonly onToggle: (node: string) => void
  /** Of the changed definition. */
  readonly onUndo: () => void
  readonly verdicts: ReadonlyMap<string, Verdict>
  readonly origin: ReadonlyMap<string, OriginNode>
  readonly preview: UseQueryResult<Preview>
  readonly isBusy: boolean
  readonly error: string | null
  readonly onFork: (confirmed: Confirmed) => void
}

export function ForkPanel(props: PanelProps) {
  const { job, draft, node, verdicts, origin, preview, isBusy, error, onFork } = props
  const [unsafe, setUnsafe] = useState<readonly string[]>([])
  const [isUnknown, setUnknown] = useState(false)
  /** What is undone leaves no text in its field. */
  const [undone, setUndone] = useState(0)
  const effects = preview.data?.effects ?? { unsafe: [], unknown: [] }
  const confirmed: Confirmed = {
    unsafe: effects.unsafe.filter(id => unsafe.includes(id)),
    unknown: isUnknown && effects.unknown.length > 0,
  }
  const isConfirmed =
    confirmed.unsafe.length === effects.unsafe.length && (effects.unknown.length === 0 || isUnknown)
  const running = [...verdicts.values()].filter(runs).length
  return (
    <aside className="fpanel" aria-label="The fork">
      <div className="fbody">
        {node !== null && <NodeSection key={`${node.id} ${undone}`} {...props} node={node} />}
        <Changes {...props} onUndone={() => setUndone(undone + 1)} />
        {preview.error !== null ? (
          <section>
            <Failed what="What would run" error={preview.error} onRetry={() => void preview.refetch()} />
          </section>
        ) : (
          preview.data !== undefined && <Figures {...{ verdicts, origin }} preview={preview.data} />
        )}
        {preview.error === null && (effects.unsafe.length > 0 || effects.unknown.length > 0) && (
          <section className="feffects">
            <h2 className="row t-waiting">
              <Icon name="warn" />
              Effects that may happen twice
            </h2>
            {effects.unsafe.map(id => (
              <label key={id} className="check">
                <input
                  type="checkbox"
                  checked={unsafe.includes(id)}
                  onChange={({ target }) =>
                    setUnsafe(target.checked ? [...unsafe, id] : unsafe.filter(one => one !== id))
                  }
                />
                <span>
                  <b>{id}</b> has an effect outside of Umbra, and{" "}
                  {origin.get(id)?.started_at == null
                    ? "has not run in the origin."
                    : "has run in the origin."}
                </span>
              </label>
            ))}
            {effects.unknown.length > 0 && (
              <label className="check">
                <input
                  type="checkbox"
                  checked={isUnknown}
                  onChange={({ target }) => setUnknown(target.checked)}
                />
                <span>
                  <b>{listed(effects.unknown)}</b>: {effects.unknown.length === 1 ? "its" : "their"} handlers
                  do not declare what a repetition does.
                </span>
              </label>
            )}
          </section>
        )}
      </div>
      <footer>
        {error !== null && (
          <p className="small t-failed break-words" role="alert">
            {error}
          </p>
        )}
        <div className="row">
          <button
            className="btn"
            type="button"
            onClick={() => void copyText(buildForkCommand(job.job_id, draft, job.workflow, confirmed))}
          >
            Copy as command
          </button>
          <button
            className="btn primary"
            type="button"
            disabled={
              isBusy ||
              preview.data === undefined ||
              preview.error !== null ||
              preview.isPlaceholderData ||
              draft.open.length > 0 ||
              !isConfirmed
            }
            title={isConfirmed ? undefined : "Confirm the effects first"}
            onClick={() => onFork(confirmed)}
          >
            <Icon name="fork" />
            Fork, run {counted(running, "node")}
          </button>
        </div>
      </footer>
    </aside>
  )
}

function listed(names: readonly string[]): string {
  return names.length <= 8
    ? names.join(", ")
    : `${names.slice(0, 8).join(", ")} and ${counted(names.length - 8, "more node")}`
}

function Changes(props: PanelProps & { readonly onUndone: () => void }) {
  const { job, draft, onDraft, onToggle, onUndo, onUndone, node, preview } = props
  const [isOpen, setOpen] = useState(draft.input !== undefined)
  const versions = useQuery(versionsQuery(job.workflow))
  const without = <T,>(entries: { readonly [name: string]: T }, name: string) =>
    Object.fromEntries(Object.entries(entries).filter(([key]) => key !== name))
  const changes: (readonly [key: string, what: string, how: string, undo: () => void])[] = [
    ...(draft.definition === undefined
      ? []
      : [["definition", "The definition", "changed, for this fork only", onUndo] as const]),
    ...draft.from.map(id => [`from ${id}`, id, "runs again", () => onToggle(id)] as const),
    ...Object.entries(draft.overrides).map(
      ([id, override]) =>
        [
          `override ${id}`,
          id,
          "output" in override ? "output set" : "config changed",
          () => onDraft(rest => ({ ...rest, overrides: without(rest.overrides, id) })),
        ] as const,
    ),
    ...Object.entries(draft.items).map(
      ([id, items]) =>
        [
          `items ${id}`,
          id,
          `items ${itemsText(items)}`,
          () => onDraft(rest => ({ ...rest, items: without(rest.items, id) })),
        ] as const,
    ),
    ...draft.reuse.map(
      id =>
        [
          `reuse ${id}`,
          id,
          "keeps its result",
          () => onDraft(rest => ({ ...rest, reuse: rest.reuse.filter(one => one !== id) })),
        ] as const,
    ),
  ]
  return (
    <section>
      <h2>Changes</h2>
      {changes.length === 0 && draft.input === undefined && draft.version === null ? (
        <p className="small mid">
          None: what did not complete runs.{" "}
          {node === null && "Choose a node to run it again, or to set its output."}
        </p>
      ) : (
        <ul className="fchanges">
          {changes.map(([key, what, how, undo]) => (
            <li key={key}>
              <b className="trunc">{what}</b>
              <span className="dim trunc">{how}</span>
              <button
                className="btn ghost icon-only sm"
                type="button"
                aria-label={`Undo: ${what} ${how}`}
                onClick={() => {
                  undo()
                  onUndone()
                }}
              >
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
      <div className="row fwrap">
        <label className="row small">
          <span className="dim">Version</span>
          <select
            className="in sel"
            value={draft.version ?? ""}
            onChange={({ target }) => {
              onUndo()
              changeQuery({ version: target.value || null, node: null })
            }}
          >
            <option value="">{versionText(job.workflow_version)}, as it ran</option>
            {(versions.data?.versions ?? [])
              .filter(({ version }) => version !== job.workflow_version)
              .map(({ version }, n) => (
                <option key={version} value={version}>
                  v{version}
                  {n === 0 && version > (job.workflow_version ?? 0) ? ", latest" : ""}
                </option>
              ))}
          </select>
        </label>
        <span className="sp" />
        <button
          className="btn sm"
          type="button"
          aria-expanded={isOpen}
          onClick={() => {
            if (isOpen) onDraft(({ input: _, ...rest }) => rest)
            setOpen(!isOpen)
          }}
        >
          {isOpen ? (draft.input === undefined ? "Close" : "Undo the change") : "Change the input"}
        </button>
      </div>
      {isOpen && (
        <InputEditor
          {...{ job, draft, onDraft }}
          problems={preview.error instanceof ApiError ? preview.error.problems : []}
          onValue={input => onDraft(rest => ({ ...rest, input }))}
        />
      )}
    </section>
  )
}

export function timeRange(
  quantiles: { readonly p50: number; readonly p90: number } | null | undefined,
): string {
  if (quantiles == null) return "no data"
  return range(duration(quantiles.p50), duration(quantiles.p90))
}
