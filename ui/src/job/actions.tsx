/** What a person can do with the job: only what their scopes allow, always with the job as it is now. */
import { useQueryClient } from "@tanstack/react-query"
import { useState } from "react"
import { ask } from "../api/http.ts"
import type { Moment } from "../model/timeline.ts"
import { Ask } from "../shell/dialog.tsx"
import { Icon, type IconName } from "../shell/icons.tsx"

export type ActionName = "cancel" | "retry" | "pause" | "resume" | "delete"

interface ActionText {
  readonly label: string
  readonly icon: IconName
  readonly title: string
  readonly note: string
  readonly isDanger?: boolean
  /** The key that opens its dialog. */
  readonly key?: string
}

export const actionTexts: { readonly [name in ActionName]: ActionText } = {
  cancel: {
    label: "Cancel",
    icon: "cancel",
    title: "Cancel the job as it is now",
    note: "Running attempts are aborted. What is done stays done, and a retry continues from there.",
    isDanger: true,
  },
  retry: {
    label: "Retry",
    icon: "retry",
    title: "Retry the job",
    note: "All nodes that are neither completed nor skipped run again.",
  },
  pause: {
    label: "Pause",
    icon: "pause",
    title: "Pause the job",
    note: "No new node starts until it is resumed. Running attempts continue to their end; retries and timers wait. The time to live keeps elapsing.",
    key: "P",
  },
  resume: {
    label: "Resume",
    icon: "play",
    title: "Resume the job",
    note: "Nodes that are ready start at once.",
    key: "P",
  },
  delete: {
    label: "Delete",
    icon: "close",
    title: "Delete the job",
    note: "It is hidden from lists at once, and removed by retention.",
    isDanger: true,
  },
}

const ended = new Set(["COMPLETED", "FAILED", "CANCELLED", "EXPIRED"])
const retryable = new Set(["FAILED", "CANCELLED", "EXPIRED"])

/** `newest`: the job as it is now, whatever moment is shown. */
export function possibleActions(newest: Moment): readonly ActionName[] {
  const { status, paused } = newest.view
  if (status === "DELETED") return []
  if (ended.has(status)) return [...(retryable.has(status) ? (["retry"] as const) : []), "delete"]
  return ["cancel", paused === undefined ? "pause" : "resume"]
}

export function ActionDialog({
  jobId,
  name,
  onDone,
  onClose,
}: {
  jobId: string
  name: ActionName
  onDone: () => void
  onClose: () => void
}) {
  const [error, setError] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const queries = useQueryClient()
  const { title, note, label, isDanger = false } = actionTexts[name]
  const act = async (form: FormData) => {
    setBusy(true)
    setError(null)
    const reason = String(form.get("reason") ?? "").trim()
    try {
      if (name === "delete") await ask(`/jobs/${jobId}`, { method: "DELETE" })
      else
        await ask(`/jobs/${jobId}/${name}`, {
          method: "POST",
          ...(reason === "" ? {} : { body: { reason } }),
        })
      void queries.invalidateQueries({ queryKey: ["jobs"] })
      onDone()
      onClose()
    } catch (failure) {
      setError((failure as Error).message)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Ask
      title={title}
      action={`${label} the job`}
      isDanger={isDanger}
      isBusy={isBusy}
      error={error}
      onClose={onClose}
      onSubmit={form => void act(form)}
    >
      <p className="small mid">{note}</p>
      {(name === "cancel" || name === "pause") && (
        <label className="field">
          <span>Reason (optional)</span>
          <input className="in" name="reason" autoComplete="off" maxLength={500} />
        </label>
      )}
    </Ask>
  )
}

export function ActionButtons({
  actions,
  onAction,
}: {
  actions: readonly ActionName[]
  onAction: (name: ActionName) => void
}) {
  return (
    <>
      {actions.map(name => {
        const { label, icon, isDanger, key, title } = actionTexts[name]
        return (
          <button
            key={name}
            className={isDanger ? "btn danger" : "btn"}
            type="button"
            title={key === undefined ? title : `${title}  ${key}`}
            onClick={() => onAction(name)}
          >
            <Icon name={icon} />
            {label}
          </button>
        )
      })}
    </>
  )
}
