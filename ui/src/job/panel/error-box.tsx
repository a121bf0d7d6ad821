/** An error with its code, its whole message and its details. */
import type { ErrorView } from "../../../../src/core/index.ts"
import { clock } from "../../model/format.ts"
import { StateMark } from "../../shell/icons.tsx"
import { JsonTree } from "./json-tree.tsx"

/** Messages of errors are never truncated. */
export function ErrorBox({ error, at, title }: { error: ErrorView; at?: number | null; title?: string }) {
  return (
    <div className="errbox">
      <div className="row">
        <StateMark status="FAILED" />
        <b>{title ?? error.code}</b>
        <span className="sp" />
        {at != null && <span className="tiny dim">{clock(at)}</span>}
      </div>
      <p>{error.message}</p>
      {error.details !== undefined && Object.keys(error.details).length > 0 && (
        <details>
          <summary className="tiny dim">Details</summary>
          <JsonTree source={{ value: error.details as never }} label="details of the error" />
        </details>
      )}
    </div>
  )
}
