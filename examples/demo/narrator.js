// Says what happens to the job, one line per event that a newcomer wants to see.
const isPlain = !process.stdout.isTTY || Boolean(process.env.NO_COLOR)
const style = code => text => (isPlain ? text : `\x1b[${code}m${text}\x1b[0m`)
export const bold = style(1)
export const dim = style(2)
export const red = style(31)
export const green = style(32)
export const yellow = style(33)

/** Each event has a key of its own: whoever watches from the beginning again recognises what has been told. */
const told = new Set()

export function narrate(event) {
  if (told.has(event.idempotency_key)) return
  told.add(event.idempotency_key)
  const line = lineOf(event)
  if (line) console.log(`   ${line}`)
}

function lineOf({ type, node, attempt, payload }) {
  switch (type) {
    case "job.pending":
      return dim("the job is stored: from here on nothing of it can be lost")
    case "node.completed":
      return `${green("✓")} ${node}${attempt > 1 ? dim(`  (attempt ${attempt})`) : ""}`
    case "node.skipped":
      return `${dim("–")} ${node} ${dim("skipped: its condition is false")}`
    case "node.queued":
      return payload.reason === "retry"
        ? `${yellow("↻")} ${node} ${dim(`failed (${payload.fault.message}) and is tried again`)}`
        : null
    case "attempt.lost":
      return `${yellow("↻")} ${node} ${dim("was lost with its process and is handed out again")}`
    default:
      return null
  }
}
