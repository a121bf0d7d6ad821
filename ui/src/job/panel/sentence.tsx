/** A sentence with links to nodes and jobs, and commands to copy. */

import { shortId } from "../../model/format.ts"
import type { Sentence as Parts } from "../../model/sentences.ts"
import { pageHref } from "../../shell/router.ts"
import { copyText } from "../../shell/states.tsx"

export function Sentence({ parts, onNode }: { parts: Parts; onNode: (id: string) => void }) {
  return (
    <>
      {parts.map((part, n) => {
        if (typeof part === "string") return part
        if ("strong" in part) return <b key={n}>{part.strong}</b>
        if ("node" in part)
          return (
            <button key={n} className="link" type="button" onClick={() => onNode(part.node)}>
              {part.node}
            </button>
          )
        if ("command" in part)
          return (
            <button
              key={n}
              className="cmd mono"
              type="button"
              title="Copy"
              onClick={() => void copyText(part.command)}
            >
              {part.command}
              <span className="sr">, copy the command</span>
            </button>
          )
        return (
          <a key={n} className="link mono" href={pageHref(`/jobs/${part.job}`)}>
            {shortId(part.job)}
          </a>
        )
      })}
    </>
  )
}
