/**
 * The editor of a workflow: its text, checked by the server while it is written, with the graph beside it. It is pushed as
 * a new version, or used by a fork alone. The server reads YAML of up to 8 KiB over HTTP; longer definitions are edited as JSON, which YAML contains.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { type MouseEvent, useEffect, useMemo, useState } from "react"
import type { CompiledGraph, JsonObject } from "../../../src/core/index.ts"
import { ApiError, ask, type SentProblem } from "../api/http.ts"
import { counted } from "../model/format.ts"
import { StateMark } from "../shell/icons.tsx"
import { useKeys } from "../shell/keys.ts"
import { go, pageHref } from "../shell/router.ts"
import { Empty } from "../shell/states.tsx"
import { TextDiff } from "./changes.tsx"
import { CodeArea, LINE } from "./code-area.tsx"
import { orderedDefinition, workflowYaml } from "./ordered.ts"
import { type Mark, PlanGraph } from "./plan-graph.tsx"
import { versionsQuery, type Workflow, workflowQuery } from "./types.ts"

const CHECKED_AFTER_MS = 300
const MOST_YAML = 8192

const example = `name: hello
input:
  type: object
  required: [who]
  properties:
    who: { type: string, description: Who is greeted }
nodes:
  - id: greet
    handler: transform
    config:
      value: "Hello, {{ input.who }}"
`

interface Valid {
  readonly name: string
  readonly nodes: number
  readonly routes: number
  readonly graph: CompiledGraph
  readonly definition: JsonObject
}

/** What the server reports about a text; `isSettled`: about the current one. */
function useCheck(text: string) {
  const checked = useSettled(text)
  const check = useQuery({
    queryKey: ["check", checked],
    queryFn: ({ signal }) =>
      ask<Valid>("/workflows/validate", {
        method: "POST",
        query: { graph: "true", definition: "true" },
        document: toDocument(checked),
        signal,
      }),
    retry: false,
    gcTime: 10_000,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const problems = check.error instanceof ApiError ? check.error.problems : []
  return {
    problems,
    failure: check.error !== null && problems.length === 0 ? check.error.message : null,
    isSettled: checked === text && !check.isFetching,
    valid: check.data,
  }
}

export default function Editor({ workflow, canPush }: { workflow: Workflow | null; canPush: boolean }) {
  const queries = useQueryClient()
  const first = useMemo(() => (workflow === null ? example : workflowText(workflow)), [workflow])
  const [text, setText] = useState(first)
  const [pushed, setPushed] = useState<{ text: string; said: string } | null>(null)
  const [pushError, setPushError] = useState<Error | null>(null)
  const [isBusy, setBusy] = useState(false)
  const [side, setSide] = useState<"graph" | "diff">("graph")
  const check = useCheck(text)
  const { valid, problems, isSettled } = check
  const [graph, setGraph] = useState<CompiledGraph | null>(null)
  useEffect(() => {
    if (valid !== undefined) setGraph(valid.graph)
  }, [valid])
  const isValid = isSettled && valid !== undefined
  const isChanged = text !== first && text !== pushed?.text
  const canPushNow = canPush && isValid && !isBusy && isChanged
  const push = async () => {
    if (!canPushNow) return
    setBusy(true)
    setPushError(null)
    try {
      const answer = await ask<{ name: string; version: number; unchanged: boolean }>("/workflows", {
        ...{ method: "POST", document: toDocument(text) },
      })
      const { name, version, unchanged } = answer
      setPushed({
        text,
        said: unchanged
          ? `v${version} of ${name} has this content already.`
          : `Pushed as v${version} of ${name}.`,
      })
      await queries.invalidateQueries({ queryKey: ["workflows"] })
      await queries.invalidateQueries({ queryKey: versionsQuery(name).queryKey })
      if (name !== workflow?.name) go(pageHref(`/workflows/${encodeURIComponent(name)}`, { view: "edit" }))
      else await queries.invalidateQueries({ queryKey: workflowQuery(name).queryKey, exact: true })
    } catch (error) {
      setPushError(error as Error)
    } finally {
      setBusy(false)
    }
  }
  useKeys({ "mod+s": () => void push() })
  const ids = useMemo(() => graph?.nodes.map(({ id }) => id) ?? [], [graph])
  const marks = useMemo(() => brokenNodes(problems, ids), [problems, ids])
  return (
    <div className="wedit">
      <section className="panel" aria-label="Definition">
        <header className="wrap">
          <h2 className="mono">{documentName(valid, workflow)}</h2>
          {workflow !== null && <span className="tagc">from v{workflow.version}</span>}
          <span className="sp" />
          <Verdict {...check} />
          {workflow !== null && (
            <fieldset className="seg hide-s" aria-label="Beside the text">
              <button type="button" aria-pressed={side === "graph"} onClick={() => setSide("graph")}>
                Graph
              </button>
              <button type="button" aria-pressed={side === "diff"} onClick={() => setSide("diff")}>
                Diff
              </button>
            </fieldset>
          )}
          {canPush && (
            <button
              className="btn primary"
              type="button"
              title="Push  Ctrl S"
              disabled={!canPushNow}
              onClick={() => void push()}
            >
              {pushText(valid, workflow)}
            </button>
          )}
        </header>
        <CodeArea
          label="Definition, YAML or JSON"
          value={text}
          onChange={setText}
          problems={problems}
          ids={ids}
        />
        <footer className="wfoot" role="status">
          {pushError !== null ? (
            <span className="t-failed">{pushError.message}</span>
          ) : pushed !== null && !isChanged ? (
            pushed.said
          ) : (
            <span className="dim">{formatLabel(text)}</span>
          )}
        </footer>
        <ProblemList {...check} />
      </section>
      <section className="panel wside" aria-label={side === "graph" ? "Graph" : "Changes"}>
        {side === "diff" ? (
          <TextDiff before={first} after={text} label={`Changes since v${workflow?.version}`} />
        ) : graph === null ? (
          (problems.length > 0 || check.failure !== null) && (
            <Empty title="No graph yet">
              <p>It is drawn as soon as the text has no problem.</p>
            </Empty>
          )
        ) : valid !== undefined && valid.routes > 0 ? (
          <Empty title={`A pipeline with ${counted(valid.routes, "route")}`} />
        ) : (
          <>
            {!isValid && problems.length > 0 && (
              <p className="gnote">The graph is that of the last text without a problem.</p>
            )}
            <div className="gbox">
              <PlanGraph graph={graph} marks={marks} />
            </div>
          </>
        )}
      </section>
    </div>
  )
}

export interface EditedDefinition {
  readonly text: string
  /** undefined: the text was not checked yet, or has problems. */
  readonly valid?: Valid | undefined
}

/** The definition of one fork. null: it is that of the origin again. */
export function DefinitionOfFork({
  base,
  edited,
  onEdited,
}: {
  base: Workflow["definition"]
  edited: EditedDefinition | null
  onEdited: (edited: EditedDefinition | null) => void
}) {
  const first = useMemo(() => workflowText({ definition: base }), [base])
  const text = edited?.text ?? first
  const check = useCheck(text)
  const { valid, problems, isSettled } = check
  const found = isSettled ? valid : undefined
  useEffect(() => {
    if (edited !== null && edited.valid !== found) onEdited({ text: edited.text, valid: found })
  }, [edited, found, onEdited])
  const ids = useMemo(() => valid?.graph.nodes.map(({ id }) => id) ?? [], [valid])
  return (
    <div className="fedit">
      <CodeArea
        label="Definition of the fork, YAML or JSON"
        value={text}
        onChange={next => onEdited(next === first ? null : { text: next })}
        problems={problems}
        ids={ids}
      />
      <footer className="wfoot row">
        <Verdict {...check} />
        <span className="sp" />
        <span className="dim">{formatLabel(text)}</span>
      </footer>
      <ProblemList {...check} />
    </div>
  )
}

type Check = ReturnType<typeof useCheck>

function Verdict({ isSettled, problems, failure, valid }: Check) {
  const text = !isSettled
    ? "Checking"
    : problems.length > 0
      ? counted(problems.length, "problem")
      : failure !== null
        ? "Not checked"
        : valid === undefined
          ? ""
          : "Valid"
  const isBad = isSettled && (problems.length > 0 || failure !== null)
  return (
    <span className="verdict small" role="status" data-verdict={text}>
      {isSettled && text !== "" && <StateMark status={isBad ? "FAILED" : "COMPLETED"} />}
      {text}
    </span>
  )
}

function ProblemList({ problems, failure, isSettled }: Check) {
  if (!isSettled || (problems.length === 0 && failure === null)) return null
  return (
    <ul className="wprobs" aria-label="Problems">
      {failure !== null && <li className="t-failed">{failure}</li>}
      {problems.slice(0, 20).map(({ path, message, line, column, code }) => (
        <li key={`${path} ${line} ${message}`}>
          <span className="tagc mono bad">{code}</span>
          {line === undefined ? (
            <span className="dim mono">{path}</span>
          ) : (
            <button className="link mono" type="button" onClick={event => goTo(event, line, column ?? 1)}>
              {line}:{column}
            </button>
          )}
          <span>{message}</span>
        </li>
      ))}
      {problems.length > 20 && <li className="dim">and {problems.length - 20} more</li>}
    </ul>
  )
}

/** To that place of the text which the list of problems stands below. */
function goTo({ currentTarget }: MouseEvent, line: number, column: number): void {
  const area = currentTarget.closest("ul")!.parentElement!.querySelector("textarea")!
  const before = area.value.split("\n").slice(0, line - 1)
  const at = before.reduce((sum, text) => sum + text.length + 1, column - 1)
  area.focus()
  area.setSelectionRange(at, at)
  area.scrollTop = (line - 6) * LINE
}

function pushText(valid: Valid | undefined, workflow: Workflow | null): string {
  if (workflow === null || (valid !== undefined && valid.name !== workflow.name))
    return valid === undefined ? "Push" : `Push ${valid.name}`
  return `Push as v${workflow.version + 1}`
}

function documentName(valid: Valid | undefined, workflow: Workflow | null): string {
  return workflow?.name ?? valid?.name ?? "new workflow"
}

/** Long definitions as JSON: the server reads only short YAML. */
function workflowText(workflow: Pick<Workflow, "definition">): string {
  const yaml = workflowYaml(workflow)
  return countBytes(yaml) > MOST_YAML ? `${JSON.stringify(orderedDefinition(workflow), null, 2)}\n` : yaml
}

function countBytes(text: string): number {
  return new Blob([text]).size
}

function isJson(text: string): boolean {
  return text.trimStart().startsWith("{")
}

function formatLabel(text: string): string {
  return isJson(text) ? "JSON" : `YAML, ${countBytes(text)} of ${MOST_YAML} bytes`
}

function toDocument(text: string) {
  return { text, type: isJson(text) ? "application/json" : "application/yaml" } as const
}

/** The value, once it has not changed for a moment. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), CHECKED_AFTER_MS)
    return () => clearTimeout(timer)
  }, [text])
  return settled
}

/** Nodes of the drawn graph that a problem concerns, by their places in the document. */
function brokenNodes(problems: readonly SentProblem[], ids: readonly string[]): ReadonlyMap<string, Mark> {
  return new Map(
    problems.flatMap(({ path }) => {
      const id = ids[Number(/^nodes\[(\d+)\]/.exec(path)?.[1] ?? -1)]
      return id === undefined ? [] : [[id, "broken"] as const]
    }),
  )
}
