import type { Command, External } from "../core/commands.ts"
import type { MessageRow, Notice } from "./port/journal.ts"

/** Only those of a message that another process built are null. `item` -1: of the node itself. */
export interface NoticeColumns {
  readonly kind: string | null
  readonly node: number | null
  readonly item: number | null
  readonly news: string | null
}

export function noticeOf({ kind, node, item, news }: NoticeColumns): Notice | null {
  if (kind === null) return null
  const task = item! < 0 ? { node: node! } : { node: node!, item: item! }
  return kind === "grant_slot" ? { kind, ...task } : { kind: "external", ...task, news: news! }
}

/** The command of a message: built here from its columns, unless another process built it. */
export function messageCommand({ command, notice }: Pick<MessageRow, "command" | "notice">): Command {
  if (notice === null) return JSON.parse(command!) as Command
  const { node, item } = notice
  if (notice.kind === "grant_slot") return { type: "grant_slot", node, item }
  const news = JSON.parse(notice.news) as Omit<External, "type" | "node" | "item">
  return { type: "external", node, item, ...news }
}
