/** What the command palette offers. */
import type { IconName, Status } from "./icons.tsx"

export interface Command {
  readonly group: string
  readonly icon?: IconName
  readonly status?: Status
  readonly label: string
  readonly detail?: string
  readonly key?: string
  /** `>` job, `#` workflow, `@` node, `!` error text, `:` action */
  readonly prefix: ">" | "#" | "@" | "!" | ":"
  readonly run: () => void
}
