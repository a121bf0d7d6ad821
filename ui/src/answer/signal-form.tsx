/** Answers a node that waits for a signal: a form if the workflow declares what the answer must be, else JSON. */
import { type FormEvent, useState } from "react"
import type { Json } from "../../../src/core/index.ts"
import { ApiError, ask } from "../api/http.ts"
import { initialValue, type Schema } from "../schema-form/schema.ts"
import { ValueEditor } from "../schema-form/value-editor.tsx"

interface SignalFormProps {
  readonly jobId: string
  readonly name: string
  /** null: none is declared. */
  readonly schema: Schema | null
  readonly isItem?: boolean
  readonly onSent: () => void
}

export default function SignalForm({ jobId, name, schema, isItem, onSent }: SignalFormProps) {
  const [data, setData] = useState<Json | undefined>(() =>
    schema === null ? undefined : initialValue(schema, schema),
  )
  const [fault, setFault] = useState<string | null>(null)
  const [error, setError] = useState<Error | null>(null)
  const [isBusy, setBusy] = useState(false)
  const send = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (fault !== null) return
    setBusy(true)
    setError(null)
    try {
      await ask(`/jobs/${jobId}/signals/${encodeURIComponent(name)}`, { method: "POST", body: data ?? null })
      onSent()
    } catch (failure) {
      setError(failure as Error)
    } finally {
      setBusy(false)
    }
  }
  const problems = error instanceof ApiError ? error.problems : []
  return (
    <form className="hint" aria-label={`Answer ${name}`} onSubmit={event => void send(event)}>
      <ValueEditor
        label={schema === null ? `Data of signal ${name}, as JSON` : `Answer ${name}`}
        schema={schema}
        value={data}
        problems={problems}
        name="data"
        placeholder="null"
        onChange={(value, nextFault) => {
          setData(value)
          setFault(nextFault)
        }}
      />
      {error !== null && problems.length === 0 && (
        <p className="t-failed break-words" role="alert">
          {error.message}
        </p>
      )}
      {isItem && <p className="small dim">The first item that waits for {name} takes the answer.</p>}
      <div className="row">
        <button className="btn primary" type="submit" disabled={isBusy}>
          Send {name}
        </button>
      </div>
    </form>
  )
}
