import type { Command, External } from "../core/commands.ts"
import type { MessageRow } from "./port/journal.ts"

/** The command of a message: built here from its columns, unless another process built it. */
export function messageCommand({ command, notice }: Pick<MessageRow, "command" | "notice">): Command {
  if (notice === null) return JSON.parse(command!) as Command
  const { node, item } = notice
  if (notice.kind === "grant_slot") return { type: "grant_slot", node, item }
  const news = JSON.parse(notice.news) as Omit<External, "type" | "node" | "item">
  return { type: "external", node, item, ...news }
}
