/** The form of a node or an item that waits for a signal, and the link to it. */
import { lazy, Suspense } from "react"
import type { WaitingOn } from "../../../../src/core/index.ts"
import { pageHref } from "../../shell/router.ts"
import type { DrawerProps } from "./drawer.tsx"

/** Few nodes wait for a signal: the form is loaded with the first of them. */
const SignalForm = lazy(() => import("../../answer/signal-form.tsx"))

export interface AnswerProps extends Pick<DrawerProps, "source" | "moment" | "canSignal" | "onCommand"> {
  readonly of: { readonly node: string; readonly item?: string }
  readonly waiting: WaitingOn | null
}

export function Answer({ source, moment, canSignal, onCommand, of, waiting }: AnswerProps) {
  if (!canSignal || !moment.isLive || waiting?.kind !== "signal") return null
  return (
    <Suspense fallback={null}>
      <SignalForm
        key={of.item}
        jobId={source.jobId}
        name={waiting.name}
        schema={waiting.schema ?? null}
        isItem={of.item !== undefined}
        onSent={onCommand}
      />
      <p>
        <a className="link" href={pageHref(`/jobs/${source.jobId}/answer`, of)}>
          Open this form on its own page
        </a>
      </p>
    </Suspense>
  )
}
