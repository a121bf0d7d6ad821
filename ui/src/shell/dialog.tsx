/** A modal dialog of the browser: focus stays inside, Esc closes it, and focus returns to where it was. */
import { type FormEvent, type ReactNode, useLayoutEffect, useRef } from "react"

export function Dialog({
  label,
  className,
  isKept = false,
  onClose,
  children,
}: {
  label: string
  className: string
  /** A press beside it, or Esc, does not close it. */
  isKept?: boolean
  onClose: () => void
  children: ReactNode
}) {
  const ref = useRef<HTMLDialogElement>(null)
  // A dialog that is closed after it has left the page would not return the focus.
  useLayoutEffect(() => {
    const dialog = ref.current!
    dialog.showModal()
    // Without fields Enter confirms the action, unless it is destructive.
    if (dialog.querySelector("input, textarea, select") === null)
      dialog.querySelector<HTMLElement>("button.primary")?.focus()
    return () => dialog.close()
  }, [])
  return (
    <dialog
      ref={ref}
      className={className}
      aria-label={label}
      onClose={onClose}
      onCancel={event => isKept && event.preventDefault()}
      onKeyDown={event => isKept && event.key === "Escape" && event.preventDefault()}
      onClick={event => {
        if (event.target === ref.current && !isKept) onClose()
      }}
    >
      {children}
    </dialog>
  )
}

interface AskOptions {
  readonly title: string
  readonly action: string
  readonly isDanger?: boolean
  readonly isBusy?: boolean
  readonly error?: string | null
  readonly onClose: () => void
  readonly onSubmit: (form: FormData) => void
  readonly children?: ReactNode
}

/** Asks for confirmation of an action. The button names it. */
export function Ask({
  title,
  action,
  isDanger = false,
  isBusy = false,
  error = null,
  onClose,
  onSubmit,
  children,
}: AskOptions) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    onSubmit(new FormData(event.currentTarget))
  }
  return (
    <Dialog label={title} className="ask" onClose={onClose}>
      <form onSubmit={submit}>
        <h2>{title}</h2>
        {children}
        {error !== null && (
          <p className="small t-failed break-words" role="alert">
            {error}
          </p>
        )}
        <div className="row acts">
          <button className="btn" type="button" onClick={onClose}>
            Close
          </button>
          <button className={isDanger ? "btn danger" : "btn primary"} type="submit" disabled={isBusy}>
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  )
}
