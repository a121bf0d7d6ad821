/** What can be changed about one node of a fork, and the editors of values. */
import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query"
import { useCallback, useEffect, useRef, useState } from "react"
import type { CompiledNode, Json, JsonObject } from "../../../src/core/index.ts"
import { ask, jobPath } from "../api/http.ts"
import { bytes } from "../model/format.ts"
import { lineDiff } from "../model/line-diff.ts"
import { type FieldProblem, isObject, type Schema } from "../schema-form/schema.ts"
import { ValueEditor } from "../schema-form/value-editor.tsx"
import { Icon } from "../shell/icons.tsx"
import { Failed, Loading } from "../shell/states.tsx"
import { workflowPath } from "../workflows/types.ts"
import { type Draft, itemsText, kindTexts, parseItems, type Verdict } from "./draft.ts"
import { because } from "./figures.tsx"
import { kindIcons } from "./graph.tsx"
import type { OriginJob } from "./page.tsx"
import type { Rest } from "./panel.tsx"

interface NodeSectionProps {
  readonly job: OriginJob
  readonly node: CompiledNode
  readonly draft: Draft
  readonly verdicts: ReadonlyMap<string, Verdict>
  readonly onDraft: (change: (rest: Rest) => Rest) => void
  readonly onToggle: (node: string) => void
}

type Editor = "output" | "config" | "items"

const keepable = new Set(["input_changed", "handler_reads_input"])

export function NodeSection({ job, node, draft, verdicts, onDraft, onToggle }: NodeSectionProps) {
  const { id } = node
  const verdict = verdicts.get(id)
  const override = draft.overrides[id]
  const [editor, setEditor] = useState<Editor | null>(
    override === undefined
      ? id in draft.items
        ? "items"
        : null
      : "output" in override
        ? "output"
        : "config",
  )
  const isFrom = draft.from.includes(id)
  const isKept = draft.reuse.includes(id)
  const without = <T,>(entries: { readonly [name: string]: T }) =>
    Object.fromEntries(Object.entries(entries).filter(([key]) => key !== id))
  const clear = () =>
    onDraft(rest => ({ ...rest, overrides: without(rest.overrides), items: without(rest.items) }))
  const open = (next: Editor) => {
    clear()
    if (isFrom && next === "output") onToggle(id)
    setEditor(editor === next ? null : next)
  }
  return (
    <section className="fnode" aria-label={`Node ${id}`}>
      <h2 className="row">
        {verdict !== undefined && <Icon name={kindIcons[verdict.kind]} />}
        <span className="trunc">{id}</span>
        <span className="dim small">{verdict === undefined ? "" : kindTexts[verdict.kind]}</span>
      </h2>
      <p className="small mid" data-because>
        {verdict === undefined ? "Reading…" : `${sentence(because(verdict))}.`}
      </p>
      <div className="row fwrap">
        <button
          className="btn sm"
          type="button"
          aria-pressed={isFrom}
          title="Run it again, with all that depends on it  F"
          onClick={() => {
            if (!isFrom && editor === "output") {
              clear()
              setEditor(null)
            }
            onToggle(id)
          }}
        >
          Run again <kbd>F</kbd>
        </button>
        <button
          className="btn sm"
          type="button"
          aria-pressed={editor === "output"}
          onClick={() => open("output")}
        >
          Set output
        </button>
        <button
          className="btn sm"
          type="button"
          aria-pressed={editor === "config"}
          onClick={() => open("config")}
        >
          Change config
        </button>
        {node.for_each && (
          <button
            className="btn sm"
            type="button"
            aria-pressed={editor === "items"}
            onClick={() => open("items")}
          >
            Choose items
          </button>
        )}
        {(isKept || keepable.has(verdict?.reason.code ?? "")) && (
          <button
            className="btn sm"
            type="button"
            aria-pressed={isKept}
            onClick={() =>
              onDraft(rest => ({
                ...rest,
                reuse: isKept ? rest.reuse.filter(one => one !== id) : [...rest.reuse, id],
              }))
            }
          >
            Keep its result
          </button>
        )}
      </div>
      {editor === "output" && (
        <OutputEditor
          {...{ job, node, draft, onDraft }}
          onValue={output =>
            onDraft(rest => ({ ...rest, overrides: { ...rest.overrides, [id]: { output } } }))
          }
        />
      )}
      {editor === "config" && (
        <ConfigEditor
          {...{ job, node, draft, onDraft }}
          onValue={config =>
            onDraft(rest => ({ ...rest, overrides: { ...rest.overrides, [id]: { config } } }))
          }
        />
      )}
      {editor === "items" && (
        <ItemsField
          items={draft.items[id] ?? []}
          onItems={items =>
            onDraft(rest => ({
              ...rest,
              items: items.length === 0 ? without(rest.items) : { ...rest.items, [id]: items },
            }))
          }
        />
      )}
    </section>
  )
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** Larger values are not put into a field. */
const MOST_BYTES = 256 * 1024
/** The pause in typing after which the value is used. */
const REST_MS = 400
const MOST_LINES = 60

interface Read {
  readonly value: Json
  /** null: none is declared. */
  readonly schema: Schema | null
}

interface ValueQuery {
  readonly key: readonly unknown[]
  readonly read: (signal: AbortSignal) => Promise<Read>
}

/** Reads the value that the origin has, then lets a person change it: in a form if its schema is known. */
function OriginValue({
  label,
  what,
  value: { key, read },
  changed,
  problems,
  onValue,
  onDraft,
}: {
  label: string
  what: string
  value: ValueQuery
  /** undefined: the fork has that of the origin so far. */
  changed: unknown
  problems?: readonly FieldProblem[]
  onValue: (value: Json) => void
  onDraft: EditorProps["onDraft"]
}) {
  const query = useQuery({ queryKey: key, queryFn: ({ signal }) => read(signal), retry: false })
  const [entered, setEntered] = useState<{ readonly value: Json | undefined } | null>(
    changed === undefined ? null : { value: changed as Json },
  )
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const setOpen = useCallback(
    (isOpen: boolean) =>
      onDraft(rest => {
        const others = rest.open.filter(one => one !== what)
        return { ...rest, open: isOpen ? [...others, what] : others }
      }),
    [onDraft, what],
  )
  useEffect(
    () => () => {
      clearTimeout(timer.current)
      setOpen(false)
    },
    [setOpen],
  )
  if (query.error !== null)
    return <Failed what={what} error={query.error} onRetry={() => void query.refetch()} />
  if (query.data === undefined) return <Loading what={what.toLowerCase()} rows={3} />
  const { value, schema } = query.data
  const size = JSON.stringify(value).length
  if (size > MOST_BYTES)
    return (
      <p className="small mid">
        {what} has {bytes(size)}, too much for this field: use <code>umbra fork</code>.
      </p>
    )
  return (
    <>
      <ValueEditor
        label={label}
        schema={schema}
        value={entered === null ? value : entered.value}
        {...(problems === undefined ? {} : { problems })}
        onChange={(next, fault) => {
          setEntered({ value: next })
          setOpen(true)
          clearTimeout(timer.current)
          if (fault !== null || next === undefined) return
          timer.current = setTimeout(() => {
            onValue(next)
            setOpen(false)
          }, REST_MS)
        }}
      />
      {entered !== null && <Change before={value} after={entered.value} />}
    </>
  )
}

/** What differs from the origin, by lines; what is the same is left out. */
function Change({ before, after }: { before: Json; after: Json | undefined }) {
  const text = (value: Json | undefined) => (value === undefined ? "" : JSON.stringify(value, null, 2))
  const lines = lineDiff(text(before), text(after)).filter(({ kind }) => kind !== "same")
  if (lines.length === 0) return null
  return (
    <ol className="vdiff fdiff" aria-label="What differs from the origin">
      {lines.slice(0, MOST_LINES).map(({ kind, text: line, a, b }) => (
        <li key={`${kind} ${a ?? b}`}>
          {kind === "removed" ? <del className="code">− {line}</del> : <ins className="code">+ {line}</ins>}
        </li>
      ))}
      {lines.length > MOST_LINES && <li className="dim">and {lines.length - MOST_LINES} more lines</li>}
    </ol>
  )
}

interface EditorProps {
  readonly job: OriginJob
  readonly node: CompiledNode
  readonly draft: Draft
  readonly onValue: (value: Json) => void
  readonly onDraft: NodeSectionProps["onDraft"]
}

/** In a form, if the node declares what it completes with. */
function OutputEditor({ job, node: { id, signal, for_each }, draft, ...rest }: EditorProps) {
  const path = `${jobPath(job.job_id)}/nodes/${encodeURIComponent(id)}`
  return (
    <OriginValue
      label="Its output"
      what="The output of the origin"
      value={{
        key: ["fork", path, "output"],
        read: async aborted => {
          const found = await ask<{ readonly output?: Json }>(path, { signal: aborted }).catch(error => {
            // A node that the origin does not have.
            if ((error as { status?: number }).status === 404) return { output: null }
            throw error
          })
          return { value: found.output ?? null, schema: for_each ? null : (signal?.schema ?? null) }
        },
      }}
      changed={readChange(draft, id, "output")}
      {...rest}
    />
  )
}

interface Definition {
  readonly input?: unknown
  readonly nodes?: readonly { readonly id: string; readonly config?: JsonObject }[]
}

/** null: what the origin runs, which may be no version. */
export function definitionQuery({ job_id, workflow }: OriginJob, version: number | null) {
  return queryOptions({
    queryKey: ["fork", job_id, "definition", version],
    queryFn: async ({ signal }) =>
      (
        await ask<{ readonly definition: Definition }>(
          version === null
            ? `${jobPath(job_id)}/compiled-graph`
            : `${workflowPath(workflow)}/versions/${version}`,
          { query: { definition: version === null ? "true" : null }, signal },
        )
      ).definition,
    staleTime: Number.POSITIVE_INFINITY,
  })
}

/** The definition that the fork runs. */
function useDefinition(job: OriginJob, { version, definition }: Draft) {
  const queries = useQueryClient()
  return async (): Promise<Definition> => definition ?? queries.ensureQueryData(definitionQuery(job, version))
}

function readChange({ overrides }: Draft, id: string, what: "output" | "config"): unknown {
  return (overrides[id] as { readonly [what: string]: unknown } | undefined)?.[what]
}

function ConfigEditor({ job, node: { id }, draft, ...rest }: EditorProps) {
  const read = useDefinition(job, draft)
  return (
    <OriginValue
      label="Its config; templates are allowed"
      what="The config"
      value={{
        key: ["fork", "config", job.job_id, id, draft.version, draft.definition],
        read: async () => {
          const { nodes = [] } = await read()
          return { value: nodes.find(node => node.id === id)?.config ?? {}, schema: null }
        },
      }}
      changed={readChange(draft, id, "config")}
      {...rest}
    />
  )
}

export function InputEditor({
  job,
  draft,
  ...rest
}: Omit<EditorProps, "node"> & { problems: readonly FieldProblem[] }) {
  const path = jobPath(job.job_id)
  const read = useDefinition(job, draft)
  return (
    <OriginValue
      key={draft.version}
      label="Input of the fork"
      what="The input of the origin"
      value={{
        key: ["fork", path, "input", draft.version, draft.definition],
        read: async signal => {
          const { input } = await read()
          return { value: await readInput(path, signal), schema: isObject(input) ? input : null }
        },
      }}
      changed={draft.input}
      {...rest}
    />
  )
}

interface Facts {
  readonly facts: readonly {
    readonly seq: number
    readonly input?: unknown
  }[]
}

/** From the first fact of the job, or, if it is large, from where that refers to. */
async function readInput(path: string, signal: AbortSignal): Promise<Json> {
  const { facts } = await ask<Facts>(`${path}/facts`, { query: { limit: 1 }, signal })
  const [first] = facts
  const input = first?.input as { readonly $payload?: { readonly seq: number } } | null | undefined
  if (typeof input === "object" && input !== null && input.$payload !== undefined)
    return ask<Json>(`${path}/payloads/${input.$payload.seq}/input`, { signal })
  return (input ?? null) as Json
}

function ItemsField({
  items,
  onItems,
}: {
  items: readonly number[]
  onItems: (items: readonly number[]) => void
}) {
  const [text, setText] = useState(() => itemsText(items))
  const [error, setError] = useState<string | null>(null)
  return (
    <label className="field">
      <span>Items that run again, from 0</span>
      <input
        className={error === null ? "in mono" : "in mono bad"}
        value={text}
        placeholder="0, 3-5"
        autoComplete="off"
        aria-invalid={error !== null}
        onChange={({ target }) => {
          setText(target.value)
          try {
            onItems(parseItems(target.value))
            setError(null)
          } catch (failure) {
            setError((failure as Error).message)
          }
        }}
      />
      {error === null ? (
        <i className="help">Items that did not complete run too.</i>
      ) : (
        <i className="err" role="alert">
          {error}
        </i>
      )}
    </label>
  )
}
