/** Files from the API. A plain link would not have the header that proves where the request comes from. */
import { type ReactNode, useState } from "react"
import { download } from "../api/http.ts"

interface DownloadButtonProps {
  readonly address: string
  readonly name: string
  readonly className?: string
  readonly children: ReactNode
}

export function DownloadButton({ address, name, className, children }: DownloadButtonProps) {
  const [state, setState] = useState<"ready" | "reading" | { readonly message: string }>("ready")
  const read = async () => {
    setState("reading")
    try {
      await download(address, name)
      setState("ready")
    } catch (error) {
      setState(error as Error)
    }
  }
  return (
    <>
      <button className={className} type="button" disabled={state === "reading"} onClick={() => void read()}>
        {children}
      </button>
      {typeof state === "object" && (
        <p className="t-failed small break-words" role="alert">
          {state.message}
        </p>
      )}
    </>
  )
}
