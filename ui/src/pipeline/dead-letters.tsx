/** Messages that failed permanently: their errors and bodies, and their replay, also with another body. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { useEffect, useRef, useState } from "react"
import type { ErrorView } from "../../../src/core/index.ts"
import { ApiError, ask, jobPath } from "../api/http.ts"
import { ErrorBox } from "../job/panel/error-box.tsx"
import { JsonTree } from "../job/panel/json-tree.tsx"
import { clock, count, counted, shortId } from "../model/format.ts"
import type { JsonValue } from "../model/json/document.ts"
import { Ask } from "../shell/dialog.tsx"
import { Icon, StateMark } from "../shell/icons.tsx"
import { useKeys } from "../shell/keys.ts"
import { changeQuery, pageHref, usePlace } from "../shell/router.ts"
import { Empty, Failed, Loading, Pager } from "../shell/states.tsx"

interface DeadLetter {
  readonly id: string
  readonly route: string
  readonly attempts: number
  readonly failed_at: string
  readonly error: ErrorView
  readonly replayed_by: string | null
  readonly edited: boolean
  readonly body: JsonValue
}

interface Page {
  readonly dead_letters: readonly DeadLetter[]
  readonly next: string | null
}

/** `messages`: null replays all. */
interface Replay {
  readonly messages: readonly string[] | null
  readonly bodies?: Readonly<Record<string, unknown>>
}

const PAGE = 25

interface DeadLettersProps {
  readonly jobId: string
  readonly route: string | null
  /** How many have not been replayed; null: not known. */
  readonly left: number | null
  /** Changes when there are more of them. */
  readonly version: string
  readonly canReplay: boolean
  readonly onReplayed: () => void
}

export function DeadLetters({ jobId, route, left, version, canReplay, onReplayed }: DeadLettersProps) {
  const { query } = usePlace()
  const client = useQueryClient()
  /** `after` of this page and of those before it. */
  const [cursors, setCursors] = useState<readonly string[]>([])
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [asked, setAsked] = useState<Replay | null>(null)
  const [done, setDone] = useState<{ readonly jobId: string; readonly count: number } | null>(null)
  const path = `${jobPath(jobId)}/dead-letters`
  const after = cursors.at(-1)
  const { data, error, refetch } = useQuery({
    queryKey: ["dead-letters", jobId, route, after ?? null, version],
    queryFn: ({ signal }) => ask<Page>(path, { query: { route, after, limit: PAGE }, signal }),
    placeholderData: before => before,
    retry: false,
  })
  const letters = data?.dead_letters ?? []
  const open = letters.filter(({ replayed_by }) => replayed_by === null)
  const selected = open.filter(({ id }) => chosen.has(id)).map(({ id }) => id)
  const current = letters.find(({ id }) => id === query.get("letter")) ?? null
  const show = (id: string | null) => changeQuery({ letter: id }, { replace: true })
  const toggle = (id: string) =>
    setChosen(before => {
      const next = new Set(before)
      if (!next.delete(id)) next.add(id)
      return next
    })
  const move = (step: number) => {
    if (letters.length === 0) return false
    const place = letters.findIndex(({ id }) => id === current?.id)
    const next = letters[Math.min(letters.length - 1, Math.max(0, place + step))]!
    show(next.id)
    document.querySelector<HTMLElement>(`[data-letter="${CSS.escape(next.id)}"] .lid`)?.focus()
    return true
  }
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    x: () => (current !== null && current.replayed_by === null && canReplay ? toggle(current.id) : false),
  })
  const replayed = (job: string, number: number) => {
    setAsked(null)
    setChosen(new Set())
    setDone({ jobId: job, count: number })
    void client.invalidateQueries({ queryKey: ["dead-letters", jobId] })
    onReplayed()
  }
  return (
    <section className="panel dead" aria-label="Dead letters" data-count={left ?? undefined}>
      <header>
        <StateMark status={left === 0 ? "COMPLETED" : "FAILED"} />
        <h2>Dead letters</h2>
        {left !== null && <span className="tagc">{count(left)}</span>}
        {route !== null && <span className="small dim trunc">of route {route}</span>}
        <span className="sp" />
        {canReplay && selected.length > 0 && (
          <button className="btn sm" type="button" onClick={() => setAsked({ messages: selected })}>
            <Icon name="retry" />
            Replay {count(selected.length)} selected
          </button>
        )}
        {canReplay && left !== null && left > 0 && (
          <button className="btn sm" type="button" onClick={() => setAsked({ messages: null })}>
            <Icon name="retry" />
            Replay all {count(left)}
          </button>
        )}
      </header>
      {done !== null && (
        <p className="bnote small" role="status" data-replayed={done.jobId}>
          Job{" "}
          <a className="link mono" href={pageHref(`/jobs/${done.jobId}`)}>
            {shortId(done.jobId)}
          </a>{" "}
          replays {counted(done.count, "message")}.
        </p>
      )}
      {error !== null && data === undefined ? (
        <Failed what="The dead letters" error={error} onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <Loading what="the dead letters" rows={4} />
      ) : letters.length === 0 ? (
        <Empty
          title={route === null ? "No message failed permanently" : `No dead letter of route ${route}`}
        />
      ) : (
        <>
          <Table
            letters={letters}
            chosen={chosen}
            current={current?.id ?? null}
            canReplay={canReplay}
            onShow={id => show(id === current?.id ? null : id)}
            onToggle={toggle}
            onAll={() => setChosen(new Set(selected.length === open.length ? [] : open.map(({ id }) => id)))}
            isAll={open.length > 0 && selected.length === open.length}
          />
          {(data.next !== null || cursors.length > 0) && (
            <Pager names={["Previous", "Next"]} {...{ cursors }} next={data.next} onCursors={setCursors}>
              from {letters[0]!.id} to {letters.at(-1)!.id}
            </Pager>
          )}
          {current !== null && (
            <Letter
              key={current.id}
              letter={current}
              canReplay={canReplay}
              onReplay={body => setAsked({ messages: [current.id], bodies: { [current.id]: body } })}
              onReplayAsIs={() => setAsked({ messages: [current.id] })}
            />
          )}
        </>
      )}
      {asked !== null && (
        <ReplayDialog
          path={path}
          asked={asked}
          count={asked.messages?.length ?? left ?? 0}
          onClose={() => setAsked(null)}
          onReplayed={replayed}
        />
      )}
    </section>
  )
}

interface TableProps {
  readonly letters: readonly DeadLetter[]
  readonly chosen: ReadonlySet<string>
  readonly current: string | null
  readonly canReplay: boolean
  readonly isAll: boolean
  readonly onShow: (id: string) => void
  readonly onToggle: (id: string) => void
  readonly onAll: () => void
}

function Table(props: TableProps) {
  const { letters, chosen, current, canReplay, isAll, onShow, onToggle, onAll } = props
  return (
    <div className="bscroll">
      <table className="tbl dlt">
        <thead>
          <tr>
            {canReplay && (
              <th className="w0">
                <input
                  type="checkbox"
                  aria-label="Select all on this page"
                  checked={isAll}
                  onChange={onAll}
                />
              </th>
            )}
            <th>Message</th>
            <th>Error</th>
            <th className="num hide-s">Tries</th>
            <th className="num hide-s">At</th>
          </tr>
        </thead>
        <tbody>
          {letters.map(({ id, error, attempts, failed_at, replayed_by, edited }) => (
            <tr key={id} data-letter={id} aria-selected={id === current} data-replayed={replayed_by !== null}>
              {canReplay && (
                <td className="w0">
                  <input
                    type="checkbox"
                    aria-label={`Select ${id}`}
                    checked={chosen.has(id) && replayed_by === null}
                    disabled={replayed_by !== null}
                    onChange={() => onToggle(id)}
                  />
                </td>
              )}
              <td>
                <button
                  className="link mono lid"
                  type="button"
                  aria-expanded={id === current}
                  onClick={() => onShow(id)}
                >
                  {id}
                </button>
              </td>
              <td className="er">
                {replayed_by !== null && (
                  <span className="tagc">{edited ? "replayed, edited" : "replayed"}</span>
                )}{" "}
                <span className="mono t-failed">{error.code}</span> {error.message}
              </td>
              <td className="num hide-s">{count(attempts)}</td>
              <td className="num dim hide-s">{clock(Date.parse(failed_at))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

interface LetterProps {
  readonly letter: DeadLetter
  readonly canReplay: boolean
  readonly onReplay: (body: unknown) => void
  readonly onReplayAsIs: () => void
}

function Letter({ letter, canReplay, onReplay, onReplayAsIs }: LetterProps) {
  const [text, setText] = useState<string | null>(null)
  const ref = useRef<HTMLElement>(null)
  useEffect(() => {
    // Some browsers return a promise, which is not a clean-up function.
    ref.current!.scrollIntoView({ block: "nearest" })
  }, [])
  const { id, body, error, failed_at, replayed_by } = letter
  const parsed = text === null ? null : parse(text)
  return (
    <section ref={ref} className="dlb" aria-label={`Dead letter ${id}`}>
      <div className="row">
        <b className="mono">{id}</b>
        <span className="sp" />
        <button
          className="btn sm"
          type="button"
          onClick={() => changeQuery({ message: id }, { replace: true })}
        >
          <Icon name="pipeline" />
          Lineage
        </button>
        {canReplay && replayed_by === null && text === null && (
          <>
            <button className="btn sm" type="button" onClick={() => setText(JSON.stringify(body, null, 2))}>
              Edit
            </button>
            <button className="btn sm" type="button" onClick={onReplayAsIs}>
              Replay
            </button>
          </>
        )}
      </div>
      {replayed_by !== null && (
        <p className="small">
          Replayed{letter.edited ? " with another body" : ""} by job{" "}
          <a className="link mono" href={pageHref(`/jobs/${replayed_by}`)}>
            {shortId(replayed_by)}
          </a>
          .
        </p>
      )}
      <ErrorBox error={error} at={Date.parse(failed_at)} />
      {text === null ? (
        <JsonTree source={{ value: body }} label={`body of ${id}`} />
      ) : (
        <form
          onSubmit={event => {
            event.preventDefault()
            if (parsed !== null && "value" in parsed) onReplay(parsed.value)
          }}
        >
          <label className="field">
            <span>Body of {id}, as JSON</span>
            <textarea
              className={parsed !== null && "problem" in parsed ? "in bad" : "in"}
              name="body"
              rows={Math.min(16, Math.max(4, text.split("\n").length))}
              spellCheck={false}
              value={text}
              // biome-ignore lint/a11y/noAutofocus: a person has just asked to edit it.
              autoFocus
              aria-invalid={parsed !== null && "problem" in parsed}
              onChange={event => setText(event.target.value)}
            />
            {parsed !== null && "problem" in parsed && <em className="err">{parsed.problem}</em>}
          </label>
          <div className="row acts">
            <button className="btn sm" type="button" onClick={() => setText(null)}>
              Discard
            </button>
            <button
              className="btn sm primary"
              type="submit"
              disabled={parsed === null || "problem" in parsed}
            >
              Replay with this body
            </button>
          </div>
        </form>
      )}
    </section>
  )
}

function parse(text: string): { readonly value: unknown } | { readonly problem: string } {
  try {
    return { value: JSON.parse(text) }
  } catch (error) {
    return { problem: `This is not JSON: ${(error as Error).message}` }
  }
}

interface DialogProps {
  readonly path: string
  readonly asked: Replay
  readonly count: number
  readonly onClose: () => void
  readonly onReplayed: (jobId: string, count: number) => void
}

function ReplayDialog({ path, asked, count: number, onClose, onReplayed }: DialogProps) {
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState<string | null>(null)
  const { messages, bodies } = asked
  const send = async () => {
    setBusy(true)
    try {
      const body = { ...(messages === null ? {} : { messages }), ...(bodies === undefined ? {} : { bodies }) }
      const job = await ask<{ job_id: string; replayed: number }>(`${path}/replay`, { method: "POST", body })
      onReplayed(job.job_id, job.replayed)
    } catch (error) {
      setBusy(false)
      setProblem(error instanceof ApiError ? `${error.code ?? ""} ${error.message}` : String(error))
    }
  }
  return (
    <Ask
      title={
        number === 1 ? `Replay ${messages?.[0] ?? "1 message"}` : `Replay ${counted(number, "dead letter")}`
      }
      action={`Replay ${count(number)}`}
      isBusy={isBusy}
      error={problem}
      onClose={onClose}
      onSubmit={() => void send()}
    >
      <p className="mid">
        A new job of the same version starts with {number === 1 ? "this message" : "these messages"} in the{" "}
        {number === 1 ? "queue of its route" : "queues of their routes"}
        {bodies === undefined ? "" : ", with the body that you have written"}. A dead letter can be replayed
        once; this job does not change.
      </p>
    </Ask>
  )
}
